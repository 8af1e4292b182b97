// Softmax and its logarithm along one dimension. Inputs are dense and of one layout [outer, size,
// inner]: contiguous tensors. Computed in float32 for half types, with the largest element
// subtracted first.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

void softmax(const Tensor& input, std::int64_t dim, const Tensor& out);
void log_softmax(const Tensor& input, std::int64_t dim, const Tensor& out);
// From the gradient of the output and the output itself.
void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                      const Tensor& out);
void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                          const Tensor& out);

}  // namespace dl::kernels::cpu
