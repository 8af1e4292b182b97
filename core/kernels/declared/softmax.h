// Softmax and log-softmax along one dimension of contiguous tensors. Computed in float32 for half
// types, with the largest element subtracted first.
#pragma once

#include "core/kernels/kernel.h"

namespace dl::kernels {

DL_KERNEL(void, softmax, (const Tensor& input, std::int64_t dim, const Tensor& out))
DL_KERNEL(void, log_softmax, (const Tensor& input, std::int64_t dim, const Tensor& out))
// The gradient of the input, from the gradient of the output and the output.
DL_KERNEL(void, softmax_backward,
          (const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out))
DL_KERNEL(void, log_softmax_backward,
          (const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out))

}  // namespace dl::kernels
