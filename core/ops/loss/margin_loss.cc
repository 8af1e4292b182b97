// Losses composed of other operations, with PyTorch's formulas.
#include <cmath>
#include <numbers>

#include "core/ops/common.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/indexing.h"
#include "core/ops/logic/logic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/loss/loss_reduction.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

// Checks an operand: all operands share a device; targets may have another dtype.
void check_operand(const Tensor& first, const Tensor& tensor, std::string_view op,
                   std::string_view what) {
  check_defined(tensor, op, what);
  check_same_device(first, tensor, op);
}

void check_loss_input(const Tensor& input, std::string_view op, Reduction reduction) {
  check_defined(input, op, "the input");
  check_floating(input, op);
  check_reduction(reduction, op);
}

// Checks the shapes of a loss of classes: [N, C] and [N], or [N, C] twice; without N for one
// sample.
void check_class_target(const Tensor& input, const Tensor& target, bool is_list,
                        std::string_view op) {
  check_operand(input, target, op, "the target");
  DL_CHECK(target.dtype() == DType::kI64, kDType, "{}: the target is {}, wanted int64", op,
           name_of(target.dtype()));
  DL_CHECK((input.dim() == 1 || input.dim() == 2) && input.size(-1) > 0, kShape,
           "{}: the input has shape {}, wanted [N, C] or [C]", op, input.sizes().str());
  Shape wanted = input.sizes();
  if (!is_list) wanted = input.dim() == 1 ? Shape{} : Shape{input.size(0)};
  const bool one = !is_list && input.dim() == 1 && target.numel() == 1;  // [1] for a sample
  DL_CHECK(target.sizes() == wanted || one, kShape, "{}: the target has shape {}, wanted {}", op,
           target.sizes().str(), wanted.str());
}

void check_range(const Tensor& target, std::int64_t least, std::int64_t classes,
                 std::string_view op) {
  if (target.numel() == 0) return;
  for (const std::int64_t each :
       {min(target).item<std::int64_t>(), max(target).item<std::int64_t>()}) {
    DL_CHECK(each >= least && each < classes, kIndex,
             "{}: the target has a {}, wanted numbers from {} to {}", op, each, least, classes - 1);
  }
}

}  // namespace

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const HingeEmbeddingLossOptions& options) {
  constexpr std::string_view kOp = "hinge_embedding_loss";
  check_loss_input(input, kOp, options.reduction);
  check_operand(input, target, kOp, "the target");
  const Tensor unlike = where(ne(target, 1), clamp_min(options.margin - input, 0), 0.0);
  const Tensor alike = where(ne(target, -1), input, 0.0);
  return reduced(unlike + alike, options.reduction);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        const SoftMarginLossOptions& options) {
  constexpr std::string_view kOp = "soft_margin_loss";
  check_loss_input(input, kOp, options.reduction);
  check_operand(input, target, kOp, "the target");
  return reduced(log1p(exp(-(input * target))), options.reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultiLabelSoftMarginLossOptions& options) {
  constexpr std::string_view kOp = "multilabel_soft_margin_loss";
  check_loss_input(input, kOp, options.reduction);
  check_operand(input, target, kOp, "the target");
  DL_CHECK(input.dim() > 0, kShape, "{}: the input has no dimension, wanted [..., C]", kOp);
  Tensor loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input));
  if (options.weight.defined()) loss = loss * options.weight;
  return reduced(loss.sum(-1) / input.size(-1), options.reduction);
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginLossOptions& options) {
  constexpr std::string_view kOp = "multi_margin_loss";
  check_loss_input(input, kOp, options.reduction);
  check_class_target(input, target, false, kOp);
  DL_CHECK(options.p == 1 || options.p == 2, kInvalidArgument, "{}: p is {}, wanted 1 or 2", kOp,
           options.p);
  const std::int64_t classes = input.size(-1);
  check_range(target, 0, classes, kOp);
  const Tensor rows = input.dim() == 1 ? input.unsqueeze(0) : input;
  const Tensor places = target.reshape({-1, 1});
  Tensor loss = relu(options.margin - gather(rows, 1, places) + rows);
  if (options.p == 2) loss = square(loss);
  if (options.weight.defined()) {
    check_operand(input, options.weight, kOp, "the weight");
    DL_CHECK(options.weight.sizes() == Shape{classes}, kShape,
             "{}: the weight has shape {}, wanted [{}], one of each class", kOp,
             options.weight.sizes().str(), classes);
    loss = loss * options.weight.index({target.reshape({-1})}).unsqueeze(1);
  }
  const Tensor each = scatter(loss, 1, places, 0.0).sum(1) / classes;
  return reduced(input.dim() == 1 ? detail::drop_base(each.view({})) : each, options.reduction);
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const MultiLabelMarginLossOptions& options) {
  constexpr std::string_view kOp = "multilabel_margin_loss";
  check_loss_input(input, kOp, options.reduction);
  check_class_target(input, target, true, kOp);
  const std::int64_t classes = input.size(-1);
  check_range(target, -1, classes, kOp);
  const Tensor rows = input.dim() == 1 ? input.unsqueeze(0) : input;
  const Tensor all = input.dim() == 1 ? target.unsqueeze(0) : target;
  // Classes after the first -1 do not count.
  const Tensor counts = cumprod(ge(all, 0), 1);
  const Tensor places = all * counts.clamp(0, 1);
  const Tensor times = scatter_add(zeros_like(all), 1, places, counts);
  const Tensor is_other = eq(times, 0).to(input.dtype());
  const Tensor of_targets = (1 - gather(rows, 1, places)).unsqueeze(2);
  const Tensor further = relu(of_targets + rows.unsqueeze(1));  // [N, target, other]
  const Tensor weights = counts.to(input.dtype()).unsqueeze(2) * is_other.unsqueeze(1);
  const Tensor each = sum(further * weights, {1, 2}) / classes;
  return reduced(input.dim() == 1 ? detail::drop_base(each.view({})) : each, options.reduction);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                        const PoissonNLLLossOptions& options) {
  constexpr std::string_view kOp = "poisson_nll_loss";
  check_loss_input(input, kOp, options.reduction);
  check_operand(input, target, kOp, "the target");
  Tensor loss =
      options.log_input ? exp(input) - target * input : input - target * log(input + options.eps);
  if (options.full) {
    const Tensor stirling =
        target * log(target) - target + 0.5 * log(2 * std::numbers::pi * target);
    loss = loss + where(le(target, 1), 0.0, stirling);
  }
  return reduced(loss, options.reduction);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLLossOptions& options) {
  constexpr std::string_view kOp = "gaussian_nll_loss";
  check_loss_input(input, kOp, options.reduction);
  check_operand(input, target, kOp, "the target");
  check_operand(input, var, kOp, "the variance");
  Tensor variance = var;
  if (var.sizes() != input.sizes() && var.dim() == input.dim() - 1) variance = var.unsqueeze(-1);
  Shape narrow = input.sizes();
  if (!narrow.empty()) narrow[narrow.size() - 1] = 1;
  DL_CHECK(variance.sizes() == input.sizes() || variance.sizes() == narrow, kShape,
           "{}: the variance has shape {}, wanted the input's {}, its last size 1 or left out", kOp,
           var.sizes().str(), input.sizes().str());
  DL_CHECK(!any(lt(var.detach(), 0.0)).item<bool>(), kInvalidArgument, "{}: a variance is below 0",
           kOp);
  variance = variance.clone();
  {
    const NoGradGuard not_recorded;
    clamp_(variance, options.eps);
  }
  Tensor loss = 0.5 * (log(variance) + square(input - target) / variance);
  if (options.full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(loss, options.reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                           const MarginRankingLossOptions& options) {
  constexpr std::string_view kOp = "margin_ranking_loss";
  check_loss_input(a, kOp, options.reduction);
  check_operand(a, b, kOp, "the second input");
  check_operand(a, target, kOp, "the target");
  DL_CHECK(a.dim() == b.dim() && a.dim() == target.dim(), kShape,
           "{}: the inputs have shapes {} and {}, the target {}; wanted as many dimensions", kOp,
           a.sizes().str(), b.sizes().str(), target.sizes().str());
  return reduced(clamp_min(-target * (a - b) + options.margin, 0), options.reduction);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options) {
  constexpr std::string_view kOp = "pairwise_distance";
  check_defined(a, kOp, "the first input");
  check_operand(a, b, kOp, "the second input");
  return norm(a - b + options.eps, options.p, {-1}, {.keepdim = options.keepdim});
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options) {
  constexpr std::string_view kOp = "triplet_margin_loss";
  check_loss_input(anchor, kOp, options.reduction);
  check_operand(anchor, positive, kOp, "the positive");
  check_operand(anchor, negative, kOp, "the negative");
  DL_CHECK(options.margin > 0, kInvalidArgument, "{}: margin is {}, wanted more than 0", kOp,
           options.margin);
  DL_CHECK(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(), kShape,
           "{}: anchor, positive and negative have shapes {}, {} and {}; wanted as many dimensions",
           kOp, anchor.sizes().str(), positive.sizes().str(), negative.sizes().str());
  const PairwiseDistanceOptions by{.p = options.p, .eps = options.eps};
  const Tensor near = pairwise_distance(anchor, positive, by);
  Tensor far = pairwise_distance(anchor, negative, by);
  if (options.swap) far = minimum(far, pairwise_distance(positive, negative, by));
  return reduced(clamp_min(options.margin + near - far, 0), options.reduction);
}

}  // namespace dl
