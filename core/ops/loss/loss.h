// Loss functions.
//
// They accept tensors of any strides on one device; float16 and bfloat16 are computed in float32
// and rounded once. docs/reference/dtypes.md lists the allowed combinations of dtypes.
// core/elementwise/losses.def has the formulas of element-wise losses. Names, options and defaults
// are PyTorch's. All floating operands except weights have a gradient.
// Throws Error{kShape, kDType, kIndex, kInvalidArgument}; the text names the argument and the first
// bad index; on CUDA, a later wait for the device throws it.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dl {

// How the elements of a loss become the result.
enum class Reduction : std::uint8_t {
  kNone,       // the elements themselves
  kMean,       // their mean
  kSum,        // their sum
  kBatchMean,  // kl_div only: their sum divided by the first dimension's size
};

// A target with this class counts neither in the loss nor in the mean.
inline constexpr std::int64_t kIgnoreIndex = -100;

struct CrossEntropyLossOptions {
  Tensor weight{};  // [C], of the classes
  std::int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;  // kMean: divided by the sum of the targets' weights
  double label_smoothing = 0;              // the share of each target that all classes get, 0 to 1
};
// Softmax cross entropy.
//   logits  [N, C], [N, C, d...] or [C]
//   target  [N], [N, d...] or [] int64: classes in [0, C) or ignore_index; or the probabilities of
//           the classes, of the logits' shape and dtype
// Returns a 0-d tensor of logits' dtype, or with kNone one of the target's shape (for
// probabilities: without the classes' dimension). The mean is NaN if no target counts, as in
// PyTorch. Computed as log-sum-exp with the row maximum removed (Goodfellow et al. 2016, 4.1).
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyLossOptions& options = {});

// cross_entropy(linear(input, linear_weight, linear_bias), target, options).
//   input          [N, in] or [in]
//   linear_weight  [C, in], or [C, d..., in] for an input [N, in]
//   target         [N], [N, d...] or []: classes; or the probabilities of the classes, [N, C, d...]
//   linear_bias    [C] or [C, d...], or undefined
// With classes and without d..., a chunk of the logits is computed at a time and again in backward,
// so their memory does not grow with N; PyTorch does so if it is given `options`. On CUDA a
// gradient of half width is rounded after each chunk. Otherwise it is composed of both, and all
// logits are in memory.
Tensor linear_cross_entropy(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias = {},
                            const CrossEntropyLossOptions& options = {});

struct NLLLossOptions {
  Tensor weight{};  // [C]
  std::int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;  // as in cross_entropy
};
// The negative log likelihood, -log_probabilities[target]: shapes as in cross_entropy() with
// classes.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NLLLossOptions& options = {});

struct MSELossOptions {
  Reduction reduction = Reduction::kMean;
};
// (input - target)^2; both are broadcast. If the shapes differ, a warning is logged once, as in
// PyTorch. l1_loss, smooth_l1_loss and huber_loss do this, too.
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
// Input and target are probabilities of one shape; throws kInvalidArgument outside [0, 1].
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BCELossOptions& options = {});

struct BCEWithLogitsLossOptions {
  Tensor weight{};  // of the elements; broadcast to the input's shape
  Reduction reduction = Reduction::kMean;
  Tensor pos_weight{};  // of positive targets; broadcast to the input's shape
};
// binary_cross_entropy(sigmoid(input), target), without overflow for large inputs. Input and target
// have one shape.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BCEWithLogitsLossOptions& options = {});

struct KLDivLossOptions {
  Reduction reduction = Reduction::kMean;  // kBatchMean: the mathematical definition
  bool log_target = false;                 // the target holds logarithms, as the input does
};
// The Kullback-Leibler divergence of the input, logarithms of probabilities, from the target. Both
// are broadcast.
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& options = {});

struct CosineSimilarityOptions {
  std::int64_t dim = 1;
  double eps = 1e-8;  // lower bound of the norms in the divisor
};
// The cosine of the angle between vectors along `dim`; the operands are broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityOptions& options = {});

struct CosineEmbeddingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::kMean;
};
// 1 - cos(a, b) if the target is 1, max(0, cos(a, b) - margin) if it is -1, else 0.
//   a, b    [N, D] or [D]
//   target  [N] or [], of any dtype
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingLossOptions& options = {});

struct HingeEmbeddingLossOptions {
  double margin = 1;
  Reduction reduction = Reduction::kMean;
};
// The input if the target is 1, max(0, margin - input) if it is -1; both are broadcast.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const HingeEmbeddingLossOptions& options = {});

struct SoftMarginLossOptions {
  Reduction reduction = Reduction::kMean;
};
// log(1 + e^(-target input)), targets 1 and -1; both are broadcast.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        const SoftMarginLossOptions& options = {});

struct MultiLabelSoftMarginLossOptions {
  Tensor weight{};  // of the classes, [C]
  Reduction reduction = Reduction::kMean;
};
// The mean over the classes of binary_cross_entropy_with_logits.
//   input, target  [..., C]; targets 0 to 1
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultiLabelSoftMarginLossOptions& options = {});

struct MultiMarginLossOptions {
  double p = 1;  // 1 or 2
  double margin = 1;
  Tensor weight{};  // [C], of the classes
  Reduction reduction = Reduction::kMean;
};
// The sum over all classes i except the target of max(0, margin - input[target] + input[i])^p,
// divided by C.
//   input   [N, C] or [C]
//   target  [N] or [] int64, classes in [0, C)
Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginLossOptions& options = {});

struct MultiLabelMarginLossOptions {
  Reduction reduction = Reduction::kMean;
};
// The sum of max(0, 1 - input[t] + input[i]) over all classes t of the target and all classes i
// that are not in the target, divided by C. Takes N C^2 elements of memory.
//   input   [N, C] or [C]
//   target  as the input, int64: classes in [0, C) up to the first -1
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const MultiLabelMarginLossOptions& options = {});

struct CTCLossOptions {
  std::int64_t blank = 0;                  // the class that means "no label"
  Reduction reduction = Reduction::kMean;  // kMean first divides each loss by its number of labels
  bool zero_infinity = false;              // 0 for targets that are too long for their input
};
// Connectionist temporal classification (Graves et al. 2006): the negative log likelihood of a
// sequence of labels, summed over all alignments of the labels to the steps.
//   log_probs       [T, N, C] or [T, C], float32 or float64; must come from log_softmax, whose
//                   gradient backward assumes, as in PyTorch
//   targets         [N, S], or all labels concatenated; integers, classes other than blank
//   input_lengths   [N] integers: the number of steps of each sample, at most T
//   target_lengths  [N] integers: the number of labels of each sample
// On the CPU only.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossOptions& options = {});

struct PoissonNLLLossOptions {
  bool log_input = true;  // the input is the logarithm of the expected number
  bool full = false;      // with Stirling's approximation of log(target!) for targets above 1
  double eps = 1e-8;      // added to the input before its logarithm is taken
  Reduction reduction = Reduction::kMean;
};
// e^input - target input, or input - target log(input + eps); both are broadcast.
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                        const PoissonNLLLossOptions& options = {});

struct GaussianNLLLossOptions {
  bool full = false;  // with log(2 pi) / 2
  double eps = 1e-6;  // lower bound of the variance; ignored in the gradient
  Reduction reduction = Reduction::kMean;
};
// (log(var) + (input - target)^2 / var) / 2. Throws kInvalidArgument for a variance below 0.
//   var  the input's shape, or that shape with the last size 1 or missing
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLLossOptions& options = {});

struct MarginRankingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::kMean;
};
// max(0, -target (a - b) + margin), targets 1 (a should be larger) and -1; all are broadcast.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                           const MarginRankingLossOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  // added to each difference
  bool keepdim = false;
};
// norm(a - b + eps, p) along the last dimension; both are broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                         const PairwiseDistanceOptions& options = {});

struct TripletMarginLossOptions {
  double margin = 1;  // above 0
  double p = 2;
  double eps = 1e-6;
  bool swap = false;  // use the distance from negative to positive if it is smaller
  Reduction reduction = Reduction::kMean;
};
// max(0, d(anchor, positive) - d(anchor, negative) + margin) with d = pairwise_distance.
//   all three  [N, D] or [D]
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options = {});

}  // namespace dl
