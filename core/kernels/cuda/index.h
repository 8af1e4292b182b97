// As core/kernels/cpu/index.h and philox.h. An index out of range is reported as a fault, and gives
// zeros.
#pragma once

#include "core/random/philox.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void index_select(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out);
void index_select_backward(const Tensor& grad, std::int64_t dim, const Tensor& index,
                           const Tensor& out);
void mask_scale(const Tensor& input, const Tensor& mask, double scale, const Tensor& out);

void philox_uniform(const Tensor& out, double low, double high, const random::PhiloxSeed& seed);
void philox_normal(const Tensor& out, double mean, double std, const random::PhiloxSeed& seed);
void philox_dropout(const Tensor& input, double p, const random::PhiloxSeed& seed,
                    const Tensor& out);

}  // namespace dl::kernels::cuda
