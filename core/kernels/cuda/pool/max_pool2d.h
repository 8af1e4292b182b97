// The pooling kernels of core/kernels/cpu/network.h.
#pragma once

#include "core/args/window_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void max_pool2d(const Tensor& x, const MaxPool2dArgs& args, const Tensor& y, const Tensor& winner);
void max_pool2d_backward(const Tensor& dy, const Tensor& winner, const MaxPool2dArgs& args,
                         const Tensor& dx);

}  // namespace dl::kernels::cuda
