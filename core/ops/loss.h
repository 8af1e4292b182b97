// Losses: one number that says how far a batch's outputs are from what they should be.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dl {

// A target that counts neither in the loss nor in the mean.
inline constexpr std::int64_t kIgnoreIndex = -100;

// Mean softmax cross entropy over a batch.
//   logits  [N, C] floating; any strides
//   target  [N] int64 in [0, C), or kIgnoreIndex
// Returns a 0-d tensor of logits' dtype; NaN where no row counts, as in PyTorch. Computed as
// log-sum-exp with the row maximum removed (Goodfellow et al. 2016, 4.1). Throws Error{kShape,
// kDType, kIndex}; the text names the first bad index.
Tensor cross_entropy(const Tensor& logits, const Tensor& target);

// Mean of (input - target)^2.
//   input, target  of one shape and dtype, floating; any strides
// Returns a 0-d tensor. Throws Error{kShape, kDType}.
Tensor mse_loss(const Tensor& input, const Tensor& target);

}  // namespace dl
