// The negative log likelihood of classes. Tensors are contiguous; floating ones have one dtype, and
// float16 and bfloat16 are computed in float32.
#pragma once

#include "core/elementwise/losses.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

struct NllResult {
  std::int64_t bad = -1;  // the first target that is neither a class nor ignored
  double total = 0;       // sum of the weights of the targets that count
};
// log_probabilities [n, classes, places], target [n, places] int64, weight [classes] or undefined.
// out [n, places], or 0-d with args.reduced.
NllResult nll_loss(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
                   const NllArgs& args, const Tensor& out);
// `total` is what nll_loss() returned.
void nll_loss_backward(const Tensor& grad, const Tensor& target, const Tensor& weight,
                       const NllArgs& args, double total, const Tensor& d);

}  // namespace dl::kernels::cpu
