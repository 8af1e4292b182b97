// Losses of two elements: core/elementwise/losses.def.
//
// Tensors are contiguous; shapes and dtypes were checked by the front. float16 and bfloat16 are
// carried in float32. Sums are kept in float64, in parts whose number depends on the number of
// threads alone.
#pragma once

#include "core/elementwise/losses.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// input, target and, if they are defined, weight and pos_weight have one shape. out has it too, or
// is 0-d with args.reduced. Returns the first element of a binary_cross_entropy that is no
// probability: the element's number, plus the number of elements if it is the target's; otherwise
// -1.
std::int64_t pair_loss(PairLoss fn, const Tensor& input, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, const PairLossArgs& args, const Tensor& out);
// d, of the input's shape, is the gradient of the target or of the input. `grad` has the shape that
// `out` had.
void pair_loss_backward(PairLoss fn, const Tensor& grad, const Tensor& input, const Tensor& target,
                        const Tensor& weight, const Tensor& pos_weight, const PairLossArgs& args,
                        bool of_target, const Tensor& d);

}  // namespace dl::kernels::cpu
