// The moments of each channel of a batch. Float32 is summed in float32 within blocks, or in float64
// throughout if float32 would overflow or underflow.
#pragma once

#include <vector>

#include "core/args/norm_args.h"
#include "core/kernels/cpu/reduce/moments.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

std::vector<Moments> moments_of(const BatchNormArgs& args, const Tensor& x);

}  // namespace dl::kernels::cpu
