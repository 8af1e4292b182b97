// Kernels of the element-wise losses of core/elementwise/losses.def.
//
// Tensors are contiguous; the op function has checked shapes and dtypes. float16 and bfloat16 are
// computed in float32. Sums are kept in float64, in parts whose number depends on the number of
// threads only.
#pragma once

#include "core/elementwise/losses.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// input, target and, if defined, weight and pos_weight have one shape. out has the same shape, or
// is 0-d with args.reduced. For binary_cross_entropy, returns the first element outside [0, 1]: its
// index in the input, or numel + its index in the target; otherwise -1.
std::int64_t pair_loss(PairLoss fn, const Tensor& input, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, const PairLossArgs& args, const Tensor& out);
// d, of the input's shape, is the gradient of the target or of the input. `grad` has the shape of
// pair_loss()'s `out`.
void pair_loss_backward(PairLoss fn, const Tensor& grad, const Tensor& input, const Tensor& target,
                        const Tensor& weight, const Tensor& pos_weight, const PairLossArgs& args,
                        bool of_target, const Tensor& d);

}  // namespace dl::kernels::cpu
