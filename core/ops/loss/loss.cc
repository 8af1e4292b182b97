// Losses of classes. Element-wise losses are in pair_loss.cc.
#include "core/ops/loss/loss.h"

#include <algorithm>
#include <string>

#include "core/kernels/declared/loss.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/layout.h"
#include "core/ops/linear/linear.h"
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
};

// Input: log probabilities. Saved: target, weight.
struct NllLossBackward final : Node {
  std::string_view name() const noexcept override { return "nll_loss"; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    const Tensor d = empty(shape, {.dtype = grad.dtype(), .device = grad.device()});
    call<Op::kNllLossBackward>(
        d.device(), laid_out(grad), saved(0), has_weight ? saved(1) : Tensor(), args, total,
        d.view({d.numel() / std::max<std::int64_t>(1, classes * places), classes, places}));
    context.give(0, d);
  }
  Shape shape;
  std::int64_t classes = 0;
  std::int64_t places = 0;
  bool has_weight = false;
  NllArgs args;
  double total = 0;
};

// Inputs: input, linear weight, linear bias. Saved: these, target, weight of the classes.
struct LinearCrossEntropyBackward final : Node {
  std::string_view name() const noexcept override { return "linear_cross_entropy"; }
  std::string grad_fn_name() const override { return "NllLossBackward0"; }
  void backward(BackwardContext& context) override {
    Tensor d[3];
    for (std::size_t i = 0; i < 3; ++i) {
      if (context.needs(i)) d[i] = empty_like(saved(i));
    }
    call<Op::kLinearCrossEntropyBackward>(saved(0).device(), laid_out(context.grad_output()),
                                          saved(0), saved(1), saved(2), saved(3), saved(4), args,
                                          total, d[0], d[1], d[2]);
    // Leaves first: a gradient that is final early is all-reduced early.
    for (const std::size_t i : {std::size_t{2}, std::size_t{1}, std::size_t{0}}) {
      if (d[i].defined()) context.give(i, d[i]);
    }
  }
  NllArgs args;
  double total = 0;
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

// "target[2, 0]"
std::string place_in_target(const Tensor& target, std::int64_t element) {
  if (target.dim() == 0) return "target";
  Dims index(target.sizes().size(), 0);
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = element % target.sizes()[d];
    element /= target.sizes()[d];
  }
  return "target" + index.str();
}

[[noreturn]] void refuse_class(std::string_view op, const Tensor& target, std::int64_t element,
                               std::int64_t classes, std::int64_t ignore_index) {
  throw_error(ErrorKind::kIndex,
              "{}: {} is {}, wanted a class in [0, {}) or {} for a row to ignore", op,
              place_in_target(target, element), target.data<std::int64_t>()[element], classes,
              ignore_index);
}

std::int64_t classes_of(const Tensor& scores) {
  return scores.sizes()[class_dim(scores)];
}

void check_smoothing(double smoothing, std::string_view op) {
  DL_CHECK(smoothing >= 0 && smoothing <= 1, kInvalidArgument,
           "{}: label_smoothing is {}, wanted a share, 0 to 1", op, smoothing);
}

NllArgs args_of(std::int64_t ignore_index, Reduction reduction, double smoothing) {
  return {.ignore_index = ignore_index,
          .smoothing = smoothing,
          .reduced = reduction != Reduction::kNone,
          .mean = reduction == Reduction::kMean};
}

// The part that nll_loss and cross_entropy share; arguments are checked.
Tensor nll(std::string_view op, const Tensor& log_probabilities, const Tensor& target,
           const NLLLossOptions& options, double smoothing) {
  DL_CHECK(!log_probabilities.is_cuda(), kNotImplemented, "{}: not on CUDA yet; use x.cpu()", op);
  const Tensor x = laid_out(log_probabilities);
  const Tensor t = laid_out(target);
  const std::int64_t classes = classes_of(x);
  const std::int64_t samples = x.dim() == 1 ? 1 : x.size(0);
  std::int64_t places = 1;
  for (std::int64_t d = 2; d < x.dim(); ++d) places *= x.size(d);
  const NllArgs args = args_of(options.ignore_index, options.reduction, smoothing);
  const Tensor weight = options.weight.defined() ? laid_out(options.weight) : Tensor();
  Tensor loss =
      empty(args.reduced ? Shape() : t.sizes(), {.dtype = x.dtype(), .device = x.device()});
  const Tensor by_place = t.detach().view({samples, places});
  const kernels::NllResult result = call<Op::kNllLoss>(
      x.device(), x.detach().view({samples, classes, places}), by_place, weight, args, loss);
  if (result.bad >= 0) refuse_class(op, t, result.bad, classes, options.ignore_index);
  if (auto* node = record<NllLossBackward>(loss, log_probabilities)) {
    node->shape = x.sizes();
    node->classes = classes;
    node->places = places;
    node->has_weight = weight.defined();
    node->args = args;
    node->total = result.total;
    node->save(by_place);
    if (weight.defined()) node->save(weight);
  }
  return loss;
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

void check_linear_classes(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                          const Tensor& linear_bias, std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(linear_weight, op, "the linear weight");
  check_defined(target, op, "the target");
  check_floating(input, op);
  const Shape& sizes = linear_weight.sizes();
  DL_CHECK(input.dim() == 1 || input.dim() == 2, kShape,
           "{}: the input has shape {}, wanted [N, in] or [in]", op, input.sizes().str());
  DL_CHECK(sizes.size() >= 2 && sizes.back() == input.size(-1), kShape,
           "{}: the linear weight has shape {}, wanted [C, {}] or [C, d..., {}] for an input of "
           "shape {}",
           op, sizes.str(), input.size(-1), input.size(-1), input.sizes().str());
  DL_CHECK(sizes.size() == 2 || input.dim() == 2, kShape,
           "{}: the input has shape {}, wanted [N, {}] for a linear weight of shape {}", op,
           input.sizes().str(), input.size(-1), sizes.str());
  Shape outputs = sizes;
  outputs.pop_back();
  DL_CHECK(!linear_bias.defined() || linear_bias.sizes() == outputs, kShape,
           "{}: the linear bias has shape {}, wanted {}", op, linear_bias.sizes().str(),
           outputs.str());
  check_same_device(input, target, op);
  check_same_device(input, linear_weight, op);
  if (linear_bias.defined()) check_same_device(input, linear_bias, op);
}

void check_dtype_of(const Tensor& tensor, const Tensor& input, std::string_view op,
                    std::string_view what) {
  DL_CHECK(!tensor.defined() || tensor.dtype() == input.dtype(), kDType,
           "{}: {} is {}, but the input is {}", op, what, name_of(tensor.dtype()),
           name_of(input.dtype()));
}

// All logits in memory.
Tensor linear_cross_entropy_at_once(const Tensor& input, const Tensor& linear_weight,
                                    const Tensor& target, const Tensor& linear_bias,
                                    const CrossEntropyLossOptions& options) {
  const Tensor logits = linear(input, linear_weight.reshape({-1, input.size(-1)}),
                               linear_bias.defined() ? linear_bias.reshape({-1}) : Tensor());
  Shape sizes = linear_weight.sizes();
  sizes.pop_back();
  if (input.dim() == 2) sizes.insert(0, input.size(0));
  return cross_entropy(logits.reshape(sizes), target, options);
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
    refuse_class("cross_entropy", targets, element, classes, kIgnoreIndex);
  };
  if (bad >= 0) refuse(bad, t);
  tape::refuse_with([refuse](std::int64_t element, std::span<const tape::Operand> tensors) {
    refuse(element, tensors[1].bound);
  });
  if (auto* node = record<CrossEntropyBackward>(loss, logits)) {
    node->save(x);
    node->save(t);
    node->save(row_sums);
    node->save(counted);
  }
  return loss;
}

Tensor linear_cross_entropy(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias, const CrossEntropyLossOptions& options) {
  constexpr std::string_view kOp = "linear_cross_entropy";
  check_linear_classes(input, linear_weight, target, linear_bias, kOp);
  const bool in_chunks = linear_weight.dim() == 2 && linear_weight.numel() > 0 &&
                         input.dim() == 2 && input.numel() > 0 && !input.is_cuda() &&
                         !is_floating(target.dtype());
  if (!in_chunks) {
    return linear_cross_entropy_at_once(input, linear_weight, target, linear_bias, options);
  }
  if (const auto cast = autocast_of<Op::kLinearCrossEntropy>(input)) {
    CrossEntropyLossOptions with_weight = options;
    with_weight.weight = cast(options.weight);
    return linear_cross_entropy(cast(input), cast(linear_weight), target, cast(linear_bias),
                                with_weight);
  }
  if (target.dtype() == DType::kU8) {
    return linear_cross_entropy(input, linear_weight, target.to(DType::kI64), linear_bias, options);
  }
  check_dtype_of(linear_weight, input, kOp, "the linear weight");
  check_dtype_of(linear_bias, input, kOp, "the linear bias");
  const std::int64_t classes = linear_weight.size(0);
  DL_CHECK(target.dtype() == DType::kI64, kDType,
           "{}: the target is {}, wanted int64 class numbers", kOp, name_of(target.dtype()));
  DL_CHECK(target.sizes() == Shape{input.size(0)}, kShape,
           "{}: the target has shape {}, wanted [{}] for an input of shape {}", kOp,
           target.sizes().str(), input.size(0), input.sizes().str());
  check_class_weight(options.weight, input, classes, kOp);
  check_reduction(options.reduction, kOp);
  check_smoothing(options.label_smoothing, kOp);
  const NllArgs args = args_of(options.ignore_index, options.reduction, options.label_smoothing);
  const Tensor x = laid_out(input);
  const Tensor w = laid_out(linear_weight);
  const Tensor b = linear_bias.defined() ? laid_out(linear_bias) : Tensor();
  const Tensor t = laid_out(target);
  const Tensor weight = options.weight.defined() ? laid_out(options.weight) : Tensor();
  Tensor loss = empty(args.reduced ? Shape() : t.sizes(), {.dtype = x.dtype()});
  const kernels::NllResult result =
      call<Op::kLinearCrossEntropy>(x.device(), x.detach(), w.detach(),
                                    b.defined() ? b.detach() : b, t.detach(), weight, args, loss);
  if (result.bad >= 0) refuse_class(kOp, t, result.bad, classes, options.ignore_index);
  if (auto* node = record<LinearCrossEntropyBackward>(loss, input, linear_weight, linear_bias)) {
    node->args = args;
    node->total = result.total;
    for (const Tensor& tensor : {x, w, b, t, weight}) node->save(tensor);
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
