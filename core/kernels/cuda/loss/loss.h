// The losses of core/kernels/cpu/network.h, without waiting for the device: a target that is not a
// class is reported as a fault (fault.h), and the loss is NaN.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

std::int64_t cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                           const Tensor& row_sums, const Tensor& counted);
void cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& target,
                            const Tensor& row_sums, const Tensor& counted, const Tensor& dlogits);
void mse_loss(const Tensor& input, const Tensor& target, const Tensor& loss);
void mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, double sign,
                       const Tensor& d);

}  // namespace dl::kernels::cuda
