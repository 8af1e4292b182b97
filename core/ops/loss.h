// Losses: how far a batch's outputs are from what they should be.
//
// All take floating tensors of any strides and one dtype and device; float16 and bfloat16 are
// computed in float32 and rounded once. Formulas of single elements stand in
// core/elementwise/losses.def. Names, options and defaults are PyTorch's. Operands of one loss have
// one dtype, and all of them, but no weight, have a gradient. Throws Error{kShape, kDType, kIndex,
// kInvalidArgument}; the text names the argument and the first bad index. On CUDA devices there are
// mse_loss and cosine_similarity, and cross_entropy with its default options or with probabilities.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dl {

// What becomes of the loss's elements.
enum class Reduction : std::uint8_t {
  kNone,       // they are the result
  kMean,       // their mean
  kSum,        // their sum
  kBatchMean,  // kl_div only: their sum over the first dimension's size
};

// A target that counts neither in the loss nor in the mean.
inline constexpr std::int64_t kIgnoreIndex = -100;

struct CrossEntropyLossOptions {
  Tensor weight{};  // [C], of the classes
  std::int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;  // kMean: over the sum of the targets' weights
  double label_smoothing = 0;              // the share of each target that all classes get, 0 to 1
};
// Softmax cross entropy.
//   logits  [N, C], [N, C, d...] or [C]
//   target  [N], [N, d...] or [] int64: classes in [0, C) or ignore_index; or the probabilities of
//           the classes, of the logits' shape and dtype
// Returns a 0-d tensor of logits' dtype, or with kNone one of the target's shape (for
// probabilities: without the classes' dimension). The mean is NaN where no target counts, as in
// PyTorch. Computed as log-sum-exp with the row maximum removed (Goodfellow et al. 2016, 4.1).
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyLossOptions& options = {});

struct NLLLossOptions {
  Tensor weight{};  // [C]
  std::int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;  // as of cross_entropy
};
// The negative log likelihood, -log_probabilities[target]: shapes as of cross_entropy with classes.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NLLLossOptions& options = {});

struct MSELossOptions {
  Reduction reduction = Reduction::kMean;
};
// (input - target)^2; both are broadcast.
Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossOptions& options = {});

struct L1LossOptions {
  Reduction reduction = Reduction::kMean;
};
// |input - target|; both are broadcast.
Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& options = {});

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::kMean;
  double beta = 1;  // at least 0
};
// Both are broadcast.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options = {});

struct HuberLossOptions {
  Reduction reduction = Reduction::kMean;
  double delta = 1;  // above 0
};
// Both are broadcast.
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

struct BCELossOptions {
  Tensor weight{};  // of the elements; broadcast to the input's shape
  Reduction reduction = Reduction::kMean;
};
// Input and target are probabilities of one shape: others throw kInvalidArgument.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BCELossOptions& options = {});

struct BCEWithLogitsLossOptions {
  Tensor weight{};  // of the elements; broadcast to the input's shape
  Reduction reduction = Reduction::kMean;
  Tensor pos_weight{};  // of positive targets; broadcast to the input's shape
};
// binary_cross_entropy(sigmoid(input), target), exact for large inputs. One shape.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BCEWithLogitsLossOptions& options = {});

struct KLDivLossOptions {
  Reduction reduction = Reduction::kMean;  // kBatchMean is the definition's
  bool log_target = false;                 // the target holds logarithms, as the input does
};
// The Kullback-Leibler divergence of the input, logarithms of probabilities, from the target. Both
// are broadcast.
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& options = {});

struct CosineSimilarityOptions {
  std::int64_t dim = 1;
  double eps = 1e-8;  // the least norm that is divided by
};
// The cosine of the angle between vectors along `dim`; the operands are broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityOptions& options = {});

struct CosineEmbeddingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::kMean;
};
// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1, else 0.
//   a, b    [N, D] or [D]
//   target  [N] or [], of any dtype
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingLossOptions& options = {});

}  // namespace dl
