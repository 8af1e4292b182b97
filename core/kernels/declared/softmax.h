// Softmax and log-softmax along one dimension of contiguous tensors. float16 and bfloat16 are
// computed in float32. The largest element is subtracted first, so that no exponential overflows.
#pragma once

#include "core/kernels/kernel.h"

namespace dl::kernels {

// out[i] = e^input[i] / sum_j e^input[j]
DL_KERNEL(void, softmax, (const Tensor& input, std::int64_t dim, const Tensor& out))
// out[i] = input[i] - log(sum_j e^input[j])
DL_KERNEL(void, log_softmax, (const Tensor& input, std::int64_t dim, const Tensor& out))
// The gradient of the input, from the gradient of the output and the output:
// out[i] = output[i] (grad[i] - sum_j grad[j] output[j])
DL_KERNEL(void, softmax_backward,
          (const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out))
// out[i] = grad[i] - e^output[i] sum_j grad[j]
DL_KERNEL(void, log_softmax_backward,
          (const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out))

}  // namespace dl::kernels
