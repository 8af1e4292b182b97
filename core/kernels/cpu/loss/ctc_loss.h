// Connectionist temporal classification (Graves et al. 2006), in log space. Tensors are contiguous;
// log_probs, grad and d are of one dtype, float32 or float64.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// The lengths of each sample. Lengths and labels are checked by the caller.
struct CtcLengths {
  std::vector<std::int64_t> inputs;   // steps
  std::vector<std::int64_t> targets;  // labels
  std::vector<std::int64_t> first;    // index of its first label
  std::int64_t blank = 0;
};
// log_probs has the shape [T, N, C], and labels is [n] int64. The kernel writes the loss of each
// sample to losses, [N] float64, and the logarithm of the probability of each prefix to alpha,
// [N, T, 2 S + 1] float64. S is the number of labels of the sample that has the most.
void ctc_loss(const Tensor& log_probs, const Tensor& labels, const CtcLengths& lengths,
              const Tensor& alpha, const Tensor& losses);
// The gradient for log_probs that come from log_softmax, as in PyTorch: this is the gradient of the
// logits. grad is [N]. With zero_infinity an infinite loss has the gradient 0.
void ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& labels,
                       const Tensor& alpha, const Tensor& losses, const CtcLengths& lengths,
                       bool zero_infinity, const Tensor& d);

}  // namespace dl::kernels::cpu
