// Losses of classes. Element-wise losses are in pair_loss.cc.
#include "core/ops/loss/loss.h"

#include <algorithm>
#include <string>

#include "core/kernels/declared/loss.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/logic/logic.h"
#include "core/ops/loss/class_targets.h"
#include "core/ops/loss/loss_reduction.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

static_assert(kIgnoreIndex == kernels::kIgnoreIndex);

// Input: logits. Saved: logits (row-major), target, row_sums, the number of rows that count.
struct CrossEntropyBackward final : Node {
  std::string_view name() const noexcept override { return "cross_entropy"; }
  std::string grad_fn_name() const override { return "NllLossBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor dlogits = empty_like(saved(0));
    call<Op::kCrossEntropyBackward>(dlogits.device(), context.grad_output(), saved(0), saved(1),
                                    saved(2), saved(3), dlogits);
    context.give(0, dlogits);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& logits = saved(0);
    const Tensor counts = ne(saved(1), kIgnoreIndex);
    const Tensor classes = where(counts, saved(1), 0).unsqueeze(1);
    const Tensor wanted = scatter(zeros_like(logits.detach()), 1, classes, 1.0);
    const Tensor d =
        masked(sub(softmax(logits, 1), wanted), counts.unsqueeze(1).expand(logits.sizes()));
    context.give(0, mul(d, div(context.grad_output(), saved(3).to(logits.dtype()))));
  }
};

// The loss of checked arguments: row-major log probabilities, targets [samples, places].
Tensor nll_of(std::string_view op, const Tensor& log_probabilities, const Tensor& target,
              const Shape& target_shape, const Tensor& weight, const NllArgs& args);

// The node of nll_loss's gradient, which is linear in the gradient of the loss. Saved: target,
// weight.
struct NllGradientBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "nll_loss"; }
  void backward(BackwardContext& context) override {
    const Tensor g = context.grad_output().contiguous();
    context.give(0, nll_of(name(), g, saved(0), target_shape, saved(1), args));
  }
  Shape target_shape;
  NllArgs args;
};

// Input: log probabilities. Saved: target, weight, sums.
struct NllLossBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "nll_loss"; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const Tensor d = empty(shape, {.dtype = grad.dtype(), .device = grad.device()});
    call<Op::kNllLossBackward>(
        d.device(), laid_out(grad), saved(0), saved(1), saved(2), args,
        d.view({d.numel() / std::max<std::int64_t>(1, classes * places), classes, places}));
    if (auto* node = record<NllGradientBackward>(d, grad)) {
      node->target_shape = target_shape;
      node->args = args;
      for (const std::size_t i : {0, 1}) node->save(saved(i));
    }
    context.give(0, d);
  }
  Shape target_shape;
  Shape shape;
  std::int64_t classes = 0;
  std::int64_t places = 0;
  NllArgs args;
};

std::size_t class_dim(const Tensor& scores) {
  return scores.dim() == 1 ? 0 : 1;
}

// Without the classes' dimension.
Shape target_shape(const Tensor& scores) {
  Shape shape;
  for (std::size_t d = 0; d < scores.sizes().size(); ++d) {
    if (d != class_dim(scores)) shape.push_back(scores.sizes()[d]);
  }
  return shape;
}

void check_scores(const Tensor& scores, const Tensor& target, std::string_view op,
                  std::string_view argument) {
  check_defined(scores, op, "the first argument");
  check_defined(target, op, "the target");
  check_same_device(scores, target, op);
  check_floating(scores, op);
  DL_CHECK(scores.dim() >= 1, kShape,
           "{}: the {} have shape {}, wanted [N, C], [N, C, d...] or [C]", op, argument,
           scores.sizes().str());
}

void check_classes(const Tensor& scores, const Tensor& target, std::string_view op,
                   std::string_view argument) {
  const Shape wanted = target_shape(scores);
  DL_CHECK(target.sizes() == wanted, kShape,
           "{}: the target has shape {}, wanted {} for {} of shape {}", op, target.sizes().str(),
           wanted.str(), argument, scores.sizes().str());
  DL_CHECK(target.dtype() == DType::kI64, kDType,
           "{}: the target is {}, wanted int64 class numbers", op, name_of(target.dtype()));
}

// "target[2, 0]"
std::string place_in_target(const Shape& sizes, std::int64_t element) {
  if (sizes.empty()) return "target";
  Dims index(sizes.size(), 0);
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = element % sizes[d];
    element /= sizes[d];
  }
  return "target" + index.str();
}

[[noreturn]] void refuse_class(std::string_view op, const Tensor& targets, std::int64_t element,
                               std::int64_t classes, std::int64_t ignore_index,
                               const TargetPart& part) {
  throw_error(ErrorKind::kIndex,
              "{}: {} is {}, wanted a class in [0, {}) or {} for a row to ignore", op,
              place_in_target(part.shape, part.first + element),
              targets.data<std::int64_t>()[element], classes, ignore_index);
}

std::int64_t classes_of(const Tensor& scores) {
  return scores.sizes()[class_dim(scores)];
}

}  // namespace

// `scores` gives the device and the dtype.
void check_class_weight(const Tensor& weight, const Tensor& scores, std::int64_t classes,
                        std::string_view op) {
  if (!weight.defined()) return;
  check_same_device(scores, weight, op);
  DL_CHECK(weight.dim() == 1 && weight.size(0) == classes, kShape,
           "{}: the weight has shape {}, wanted [{}], one of each class", op, weight.sizes().str(),
           classes);
  DL_CHECK(weight.dtype() == scores.dtype(), kDType, "{}: the weight is {}, wanted {}", op,
           name_of(weight.dtype()), name_of(scores.dtype()));
  DL_CHECK(!is_recorded(weight), kInvalidArgument,
           "{}: the weight requires gradients, which it does not get; give its detach()", op);
}

void check_smoothing(double smoothing, std::string_view op) {
  DL_CHECK(smoothing >= 0 && smoothing <= 1, kInvalidArgument,
           "{}: label_smoothing is {}, wanted a share, 0 to 1", op, smoothing);
}

NllArgs nll_args(std::int64_t ignore_index, Reduction reduction, double smoothing) {
  return {.ignore_index = ignore_index,
          .smoothing = smoothing,
          .reduced = reduction != Reduction::kNone,
          .mean = reduction == Reduction::kMean};
}

void nll_of_part(std::string_view op, const Tensor& log_probabilities, const Tensor& target,
                 const Tensor& weight, const NllArgs& args, const Tensor& out, const Tensor& sums,
                 const TargetPart& part) {
  const std::int64_t bad =
      call<Op::kNllLoss>(target.device(), log_probabilities, target, weight, args, out, sums);
  const auto refuse = [op, classes = log_probabilities.size(1), ignore_index = args.ignore_index,
                       part](std::int64_t element, const Tensor& targets) {
    refuse_class(op, targets, element, classes, ignore_index, part);
  };
  if (bad >= 0) refuse(bad, target);
  tape::refuse_with([refuse](std::int64_t element, std::span<const tape::Operand> tensors) {
    refuse(element, tensors[1].bound);
  });
}

namespace {

Tensor nll_of(std::string_view op, const Tensor& log_probabilities, const Tensor& target,
              const Shape& target_shape, const Tensor& weight, const NllArgs& args) {
  const Tensor x = laid_out(log_probabilities);
  const std::int64_t classes = classes_of(x);
  const std::int64_t places = target.size(1);
  Tensor loss =
      empty(args.reduced ? Shape() : target_shape, {.dtype = x.dtype(), .device = x.device()});
  const Tensor sums = empty({2}, {.dtype = DType::kF64, .device = x.device()});
  nll_of_part(op, x.detach().view({target.size(0), classes, places}), target, weight, args, loss,
              sums, {.shape = target_shape});
  if (auto* node = record<NllLossBackward>(loss, log_probabilities)) {
    node->target_shape = target_shape;
    node->shape = x.sizes();
    node->classes = classes;
    node->places = places;
    node->args = args;
    for (const Tensor& tensor : {target, weight, sums}) node->save(tensor);
  }
  return loss;
}

// The part that nll_loss and cross_entropy share; arguments are checked.
Tensor nll(std::string_view op, const Tensor& log_probabilities, const Tensor& target,
           const NLLLossOptions& options, double smoothing) {
  const Tensor t = laid_out(target);
  const std::int64_t samples = log_probabilities.dim() == 1 ? 1 : log_probabilities.size(0);
  std::int64_t places = 1;
  for (std::int64_t d = 2; d < log_probabilities.dim(); ++d) places *= log_probabilities.size(d);
  return nll_of(op, log_probabilities, t.detach().view({samples, places}), t.sizes(),
                laid_out_or_none(options.weight),
                nll_args(options.ignore_index, options.reduction, smoothing));
}

// Cross entropy with probabilities as targets: the mean or the sum over all rows, or a loss a row.
Tensor cross_entropy_of_probabilities(const Tensor& logits, const Tensor& target,
                                      const CrossEntropyLossOptions& options) {
  DL_CHECK(target.sizes() == logits.sizes(), kShape,
           "cross_entropy: the target, probabilities, has shape {}, wanted the logits' {}",
           target.sizes().str(), logits.sizes().str());
  DL_CHECK(target.dtype() == logits.dtype(), kDType,
           "cross_entropy: the target is {}, wanted {} or int64 class numbers",
           name_of(target.dtype()), name_of(logits.dtype()));
  DL_CHECK(options.ignore_index == kIgnoreIndex, kInvalidArgument,
           "cross_entropy: ignore_index is {}, but the target holds probabilities, not classes",
           options.ignore_index);
  const auto d = static_cast<std::int64_t>(class_dim(logits));
  const std::int64_t classes = logits.size(d);
  Tensor shares = target;
  if (options.label_smoothing > 0) {
    shares = add(mul(target, 1 - options.label_smoothing),
                 options.label_smoothing / static_cast<double>(classes));
  }
  Tensor products = mul(log_softmax(logits, d), shares);
  if (options.weight.defined()) {
    Shape one_each(logits.sizes().size(), 1);
    one_each[static_cast<std::size_t>(d)] = classes;
    products = mul(products, options.weight.view(one_each));
  }
  if (options.reduction == Reduction::kNone) return neg(sum(products, {d}));
  Tensor total = neg(sum(products));
  if (options.reduction == Reduction::kSum) return total;
  return detail::finish_composed(
      div(total, static_cast<double>(logits.numel()) / static_cast<double>(classes)), logits,
      "DivBackward1");
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyLossOptions& options) {
  if (const auto cast = autocast_of<Op::kCrossEntropy>(logits)) {
    CrossEntropyLossOptions with_weight = options;
    with_weight.weight = cast(options.weight);
    return cross_entropy(cast(logits), cast(target), with_weight);
  }
  check_scores(logits, target, "cross_entropy", "logits");
  check_class_weight(options.weight, logits, classes_of(logits), "cross_entropy");
  check_reduction(options.reduction, "cross_entropy");
  const double smoothing = options.label_smoothing;
  check_smoothing(smoothing, "cross_entropy");
  if (is_floating(target.dtype())) return cross_entropy_of_probabilities(logits, target, options);
  DL_CHECK(
      target.sizes() != logits.sizes(), kDType,
      "cross_entropy: the target has the logits' shape {}, so it holds probabilities, but it is "
      "{}, wanted {}; use target.to(logits.dtype()), or give class numbers",
      target.sizes().str(), name_of(target.dtype()), name_of(logits.dtype()));
  if (target.dtype() == DType::kU8) return cross_entropy(logits, target.to(DType::kI64), options);
  check_classes(logits, target, "cross_entropy", "logits");
  const bool fused = logits.dim() == 2 && options.reduction == Reduction::kMean &&
                     !options.weight.defined() && smoothing == 0 &&
                     options.ignore_index == kIgnoreIndex;
  if (!fused) {
    return nll("cross_entropy", log_softmax(logits, static_cast<std::int64_t>(class_dim(logits))),
               target,
               {.weight = options.weight,
                .ignore_index = options.ignore_index,
                .reduction = options.reduction},
               smoothing);
  }
  const Tensor x = laid_out(logits);
  const Tensor t = laid_out(target);
  const TensorOptions like{.dtype = logits.dtype(), .device = logits.device()};
  Tensor loss = empty({}, like);
  const Tensor row_sums = empty({logits.size(0), 2}, like);
  // On the same device, so that the host does not have to wait for the count.
  const Tensor counted = empty({}, {.dtype = DType::kI64, .device = logits.device()});
  const std::int64_t bad = call<Op::kCrossEntropy>(logits.device(), x, t, loss, row_sums, counted);
  const auto refuse = [classes = logits.size(1)](std::int64_t element, const Tensor& targets) {
    refuse_class("cross_entropy", targets, element, classes, kIgnoreIndex,
                 {.shape = targets.sizes()});
  };
  if (bad >= 0) refuse(bad, t);
  tape::refuse_with([refuse](std::int64_t element, std::span<const tape::Operand> tensors) {
    refuse(element, tensors[1].bound);
  });
  if (auto* node = record<CrossEntropyBackward>(loss, logits)) {
    node->save_input(0, x);
    node->save(t);
    node->save(row_sums);
    node->save(counted);
  }
  return loss;
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NLLLossOptions& options) {
  if (const auto cast = autocast_of<Op::kNllLoss>(log_probabilities)) {
    return nll_loss(cast(log_probabilities), target,
                    {.weight = cast(options.weight),
                     .ignore_index = options.ignore_index,
                     .reduction = options.reduction});
  }
  check_scores(log_probabilities, target, "nll_loss", "log probabilities");
  if (target.dtype() == DType::kU8) {
    return nll_loss(log_probabilities, target.to(DType::kI64), options);
  }
  check_class_weight(options.weight, log_probabilities, classes_of(log_probabilities), "nll_loss");
  check_reduction(options.reduction, "nll_loss");
  check_classes(log_probabilities, target, "nll_loss", "log probabilities");
  return nll("nll_loss", log_probabilities, target, options, 0);
}

}  // namespace dl
