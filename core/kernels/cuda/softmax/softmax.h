// The kernels of core/kernels/cpu/softmax/softmax.h.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void softmax(const Tensor& input, std::int64_t dim, const Tensor& out);
void log_softmax(const Tensor& input, std::int64_t dim, const Tensor& out);
void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                      const Tensor& out);
void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                          const Tensor& out);

}  // namespace dl::kernels::cuda
