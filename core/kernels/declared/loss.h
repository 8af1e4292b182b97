// Losses. The op function has checked shapes and dtypes. Tensors are contiguous; floating ones of a
// call have one dtype, unless said otherwise, and float16 and bfloat16 are computed in float32.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

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

// The negative log likelihood of classes.
struct NllResult {
  std::int64_t bad = -1;  // the first target that is neither a class nor ignored
  double total = 0;       // sum of the weights of the targets that count

  // The loss with args.reduced, from the sum of all losses. PyTorch adds two means, over own
  // classes and over all; the first is 0 / 0 if the weights sum to 0.
  double reduce(double sum, const NllArgs& args) const {
    if (!args.mean) return sum;
    const bool is_nan = args.smoothing != 0 && total == 0;
    return is_nan ? std::numeric_limits<double>::quiet_NaN() : sum / total;
  }
};
// log_probabilities [n, classes, positions], target [n, positions] int64, weight [classes] or
// undefined. out [n, positions], or 0-d with args.reduced.
DL_KERNEL(NllResult, nll_loss,
          (const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
           const NllArgs& args, const Tensor& out))
// `total` is what nll_loss() returned.
DL_KERNEL(void, nll_loss_backward,
          (const Tensor& grad, const Tensor& target, const Tensor& weight, const NllArgs& args,
           double total, const Tensor& d))

// cross_entropy of the logits input linear_weight^T + linear_bias, which are computed for a chunk
// of rows at a time: their memory does not grow with n. input [n, in], linear_weight [classes, in],
// target [n] int64; linear_bias and weight [classes] or undefined. n and classes are at least 1.
// out [n], or 0-d with args.reduced.
DL_KERNEL(NllResult, linear_cross_entropy,
          (const Tensor& input, const Tensor& linear_weight, const Tensor& linear_bias,
           const Tensor& target, const Tensor& weight, const NllArgs& args, const Tensor& out))
// `grad` has the shape of `out`; `total` is what linear_cross_entropy() returned. Each of the
// gradients may be undefined.
DL_KERNEL(void, linear_cross_entropy_backward,
          (const Tensor& grad, const Tensor& input, const Tensor& linear_weight,
           const Tensor& linear_bias, const Tensor& target, const Tensor& weight,
           const NllArgs& args, double total, const Tensor& dinput, const Tensor& dweight,
           const Tensor& dbias))

// Connectionist temporal classification (Graves et al. 2006), in log space; log_probs, grad and d
// are float32 or float64.
//
// The lengths of each sample. Lengths and labels are checked by the caller.
struct CtcLengths {
  std::vector<std::int64_t> inputs;   // steps
  std::vector<std::int64_t> targets;  // labels
  std::vector<std::int64_t> first;    // index of its first label
  std::int64_t blank = 0;
  bool operator==(const CtcLengths&) const = default;
};
// log_probs has the shape [T, N, C], and labels is [n] int64. The kernel writes the loss of each
// sample to losses, [N] float64, and the logarithm of the probability of each prefix to alpha,
// [N, T, 2 S + 1] float64. S is the number of labels of the sample that has the most.
DL_KERNEL(void, ctc_loss,
          (const Tensor& log_probs, const Tensor& labels, const CtcLengths& lengths,
           const Tensor& alpha, const Tensor& losses))
// The gradient for log_probs that come from log_softmax, as in PyTorch: this is the gradient of the
// logits. grad is [N]. With zero_infinity an infinite loss has the gradient 0.
DL_KERNEL(void, ctc_loss_backward,
          (const Tensor& grad, const Tensor& log_probs, const Tensor& labels, const Tensor& alpha,
           const Tensor& losses, const CtcLengths& lengths, bool zero_infinity, const Tensor& d))

}  // namespace dl::kernels
