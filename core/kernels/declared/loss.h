// Losses. The op function has checked shapes and dtypes. Tensors are contiguous; floating ones of a
// call have one dtype, unless said otherwise, and float16 and bfloat16 are computed in float32.
#pragma once

#include <cstdint>

#include "core/elementwise/losses.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

inline constexpr std::int64_t kIgnoreIndex = -100;

// logits [n, classes], target [n] int64; loss 0-d. row_sums [n, 2] receives each row's maximum and
// ln sum_c exp(logits[row][c] - maximum); counted, 0-d int64, the number of rows whose
// target is not kIgnoreIndex. Returns the first row with a target out of range, or -1. An
// asynchronous device always returns -1, and reports such a row when a thread waits for the device.
DL_KERNEL(std::int64_t, cross_entropy,
          (const Tensor& logits, const Tensor& target, const Tensor& loss, const Tensor& row_sums,
           const Tensor& counted))
// `grad` is the 0-d gradient of the loss.
DL_KERNEL(void, cross_entropy_backward,
          (const Tensor& grad, const Tensor& logits, const Tensor& target, const Tensor& row_sums,
           const Tensor& counted, const Tensor& dlogits))

// input and target have one shape.
DL_KERNEL(void, mse_loss, (const Tensor& input, const Tensor& target, const Tensor& loss))
// d = sign * 2 / n * grad * (input - target)
DL_KERNEL(void, mse_loss_backward,
          (const Tensor& grad, const Tensor& input, const Tensor& target, double sign,
           const Tensor& d))

// The element-wise losses of core/elementwise/losses.def. Sums are kept in float64, in parts whose
// number depends on the number of threads only.
//
// input, target and, if defined, weight and pos_weight have one shape. out has the same shape, or
// is 0-d with args.reduced. For binary_cross_entropy, returns the first element outside [0, 1]: its
// index in the input, or numel + its index in the target; otherwise -1.
DL_KERNEL(std::int64_t, pair_loss,
          (PairLoss fn, const Tensor& input, const Tensor& target, const Tensor& weight,
           const Tensor& pos_weight, const PairLossArgs& args, const Tensor& out))
// d, of the input's shape, is the gradient of the target or of the input. `grad` has the shape of
// pair_loss()'s `out`.
DL_KERNEL(void, pair_loss_backward,
          (PairLoss fn, const Tensor& grad, const Tensor& input, const Tensor& target,
           const Tensor& weight, const Tensor& pos_weight, const PairLossArgs& args, bool of_target,
           const Tensor& d))

// The negative log likelihood of classes. log_probabilities [n, classes, positions], target
// [n, positions] int64, weight [classes] or undefined. out [n, positions], or 0-d with
// args.reduced. sums [2] float64 receives the sum of the losses and that of the weights of the
// targets that count. Returns the first target that is neither a class nor ignored, or -1; an
// asynchronous device as in cross_entropy.
DL_KERNEL(std::int64_t, nll_loss,
          (const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
           const NllArgs& args, const Tensor& out, const Tensor& sums))
// `sums` is what nll_loss() wrote, over all parts.
DL_KERNEL(void, nll_loss_backward,
          (const Tensor& grad, const Tensor& target, const Tensor& weight, const Tensor& sums,
           const NllArgs& args, const Tensor& d))

// Connectionist temporal classification (Graves et al. 2006), in log space; log_probs, grad and d
// are float32 or float64.
//
// log_probs has the shape [T, N, C], and labels is [n] int64. lengths, [3, N] int64, holds each
// sample's steps, the number of its labels, and the index of the first one. The caller has checked
// lengths and labels. The kernel writes the loss of each sample to losses, [N] float64, and the
// logarithm of the probability of each prefix to alpha, [N, T, 2 S + 1] float64. S is the number of
// labels of the sample that has the most.
DL_KERNEL(void, ctc_loss,
          (const Tensor& log_probs, const Tensor& labels, const Tensor& lengths, std::int64_t blank,
           const Tensor& alpha, const Tensor& losses))
// The gradient for log_probs that come from log_softmax, as in PyTorch: this is the gradient of the
// logits. grad is [N]. With zero_infinity an infinite loss has the gradient 0.
DL_KERNEL(void, ctc_loss_backward,
          (const Tensor& grad, const Tensor& log_probs, const Tensor& labels, const Tensor& lengths,
           const Tensor& alpha, const Tensor& losses, std::int64_t blank, bool zero_infinity,
           const Tensor& d))

}  // namespace dl::kernels
