// Element-wise losses (rows of core/elementwise/losses.def) and cosine losses.
#include "core/base/log/warn_once.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/layout.h"
#include "core/ops/loss/loss.h"
#include "core/ops/loss/loss_reduction.h"
#include "core/ops/reduce/reduce.h"
#include "core/tape/recorder.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

// Inputs and saved: input, target (row-major).
struct MseLossBackward final : Node {
  std::string_view name() const noexcept override { return "mse_loss"; }
  void backward_recorded(BackwardContext& context) override {
    const Tensor scale = mul(context.grad_output(), 2.0 / static_cast<double>(saved(0).numel()));
    const Tensor d = mul(sub(saved(0), saved(1)), scale);
    if (context.needs(0)) context.give(0, d);
    if (context.needs(1)) context.give(1, neg(d));
  }
  void backward(BackwardContext& context) override {
    for (const std::size_t i : {0, 1}) {
      if (!context.needs(i)) continue;
      const Tensor d = empty_like(saved(i));
      call<Op::kMseLossBackward>(d.device(), context.grad_output(), saved(0), saved(1),
                                 i == 0 ? 1.0 : -1.0, d);
      context.give(i, d);
    }
  }
};

// Inputs: input, target. Saved: both, and the defined weights.
struct PairLossBackward final : Node {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output());
    const Tensor weight = has_weight ? saved(2) : Tensor();
    const Tensor pos_weight = has_pos_weight ? saved(has_weight ? 3 : 2) : Tensor();
    for (const std::size_t i : {0, 1}) {
      if (!context.needs(i)) continue;
      const Tensor d = empty_like(saved(0));
      call<Op::kPairLossBackward>(d.device(), fn, grad, saved(0), saved(1), weight, pos_weight,
                                  args, i == 1, d);
      context.give(i, d);
    }
  }
  void backward_recorded(BackwardContext& context) override {
    Tensor scale = context.grad_output();
    if (args.divisor != 1) scale = div(scale, args.divisor);
    if (has_weight) scale = mul(scale, saved(2));
    const Tensor pos_weight = has_pos_weight ? saved(has_weight ? 3 : 2) : Tensor();
    for (const std::size_t i : {0, 1}) {
      if (!context.needs(i)) continue;
      context.give(i, mul(pair_slope(fn, i == 1, saved(0), saved(1), pos_weight, args.a), scale));
    }
  }
  PairLoss fn{};
  bool has_weight = false;
  bool has_pos_weight = false;
  PairLossArgs args;
};

// PyTorch's name of the node, for losses that it composes of several operations: that of the last
// operation. Null for the other losses.
const char* grad_fn_of_loss(PairLoss fn, Reduction reduction) noexcept {
  const bool is_l1 = fn == PairLoss::kL1;
  if (!is_l1 && fn != PairLoss::kKlDiv && fn != PairLoss::kKlDivLog) return nullptr;
  switch (reduction) {
    case Reduction::kMean:
      return "MeanBackward0";
    case Reduction::kSum:
      return "SumBackward0";
    case Reduction::kBatchMean:
      return "DivBackward0";
    case Reduction::kNone:
      break;
  }
  return is_l1 ? "AbsBackward0" : fn == PairLoss::kKlDiv ? "SubBackward0" : "MulBackward0";
}

// Allocates unreduced losses with PyTorch's strides. PyTorch composes some losses of operations
// whose first operand is the target.
Tensor empty_losses(PairLoss fn, const Tensor& input, const Tensor& target) {
  const auto place = [&](std::initializer_list<const Tensor*> operands) {
    return empty_for(input.sizes(), operands, input.dtype(), input.device());
  };
  switch (fn) {
    case PairLoss::kBce:
    case PairLoss::kHuber:
      return place({&input});
    case PairLoss::kBceWithLogits:
      return place({&target});
    case PairLoss::kKlDiv:
    case PairLoss::kKlDivLog: {
      // exp(target) * (target - input), or xlogy(target, target) - target * input.
      const Tensor first = place({&target});
      const Tensor second = place({&target, &input});
      return place({&first, &second});
    }
    default:
      return place({&input, &target});
  }
}

// Arguments of a loss other than input and target.
struct PairLossCall {
  Reduction reduction = Reduction::kMean;
  double a = 0;
  Tensor weight{};
  Tensor pos_weight{};
};

// Input and target in their common dtype.
struct Pair {
  Tensor input;
  Tensor target;
};
Pair promoted_pair(const Tensor& input, const Tensor& target, std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(target, op, "the target");
  check_same_device(input, target, op);
  const DType dtype = promote_types(input.dtype(), target.dtype(), op);
  if (!is_floating(dtype)) refuse_dtype(op, dtype, "a floating dtype");
  return {promoted_to(input, dtype), promoted_to(target, dtype)};
}

// As in PyTorch, losses of probabilities refuse integers, and binary_cross_entropy needs one dtype.
void check_probabilities(PairLoss fn, const Tensor& input, const Tensor& target) {
  const std::string_view op = facts(fn).name;
  const bool of_one_dtype = fn == PairLoss::kBce;
  if (!of_one_dtype && fn != PairLoss::kBceWithLogits && fn != PairLoss::kKlDiv &&
      fn != PairLoss::kKlDivLog) {
    return;
  }
  check_defined(input, op, "the input");
  check_defined(target, op, "the target");
  check_floating(input, op);
  DL_CHECK(is_floating(target.dtype()) && (!of_one_dtype || target.dtype() == input.dtype()),
           kDType, "{}: the target is {}, wanted {}; convert it with to()", op,
           name_of(target.dtype()), of_one_dtype ? name_of(input.dtype()) : "a floating dtype");
}

// A weight in the dtype and shape of the elements, row-major, or undefined.
Tensor weight_like(const Tensor& weight, const Tensor& elements, std::string_view op,
                   std::string_view what) {
  if (!weight.defined()) return weight;
  check_same_device(elements, weight, op);
  DL_CHECK(!is_recorded(weight), kInvalidArgument,
           "{}: the {} requires gradients, which it does not get; give its detach()", op, what);
  DL_CHECK(broadcast_shapes(weight.sizes(), elements.sizes(), op) == elements.sizes(), kShape,
           "{}: the {} has shape {}, wanted one that is broadcast to the input's {}", op, what,
           weight.sizes().str(), elements.sizes().str());
  return laid_out(promoted_to(weight.detach(), elements.dtype()).expand(elements.sizes()));
}

double divisor_of(const Tensor& elements, Reduction reduction) {
  if (reduction == Reduction::kMean) return static_cast<double>(elements.numel());
  // PyTorch treats a 0-d tensor as a batch of one.
  if (reduction == Reduction::kBatchMean && elements.dim() > 0) {
    return static_cast<double>(elements.size(0));
  }
  return 1;
}

// Input and target have one shape.
Tensor pair_loss_of(PairLoss fn, const Tensor& input, const Tensor& target,
                    const PairLossCall& given) {
  const std::string_view op = facts(fn).name;
  const Tensor x = laid_out(input);
  const Tensor t = laid_out(target);
  const Tensor weight = weight_like(given.weight, x, op, "weight");
  const Tensor pos_weight = weight_like(given.pos_weight, x, op, "pos_weight");
  const bool has_batch_mean = fn == PairLoss::kKlDiv || fn == PairLoss::kKlDivLog;
  DL_CHECK(given.reduction != Reduction::kBatchMean || has_batch_mean, kInvalidArgument,
           "{}: the reduction is kBatchMean, which only kl_div has", op);
  const bool reduced = given.reduction != Reduction::kNone;
  const PairLossArgs args{
      .a = given.a, .reduced = reduced, .divisor = divisor_of(x, given.reduction)};
  Tensor loss = reduced ? empty({}, {.dtype = x.dtype(), .device = x.device()})
                        : empty_losses(fn, input, target);
  const auto refuse = [op, count = x.numel()](std::int64_t bad) {
    throw_error(ErrorKind::kInvalidArgument,
                "{}: element {} of the {} is no probability, 0 to 1; "
                "binary_cross_entropy_with_logits takes any number",
                op, bad % count, bad < count ? "input" : "target");
  };
  through_row_major(loss, [&](const Tensor& out) {
    const std::int64_t bad =
        call<Op::kPairLoss>(x.device(), fn, x, t, weight, pos_weight, args, out);
    if (bad >= 0) refuse(bad);
    tape::refuse_with(
        [refuse](std::int64_t element, std::span<const tape::Operand>) { refuse(element); });
  });
  if (auto* node = record<PairLossBackward>(loss, input, target)) {
    node->fn = fn;
    node->set_grad_fn_name(grad_fn_of_loss(fn, given.reduction));
    node->args = args;
    node->save_input(0, x);
    node->save_input(1, t);
    node->has_weight = weight.defined();
    node->has_pos_weight = pos_weight.defined();
    if (weight.defined()) node->save(weight);
    if (pos_weight.defined()) node->save(pos_weight);
  }
  return loss;
}

// [N] and [N, 1] broadcast to N x N pairs, which is rarely intended. PyTorch warns for these four
// losses.
void warn_of_broadcast(PairLoss fn, const Tensor& input, const Tensor& target) {
  if (fn != PairLoss::kMse && fn != PairLoss::kL1 && fn != PairLoss::kSmoothL1 &&
      fn != PairLoss::kHuber) {
    return;
  }
  warn_once(
      "{}: the target's shape {} differs from the input's {}, and both are broadcast; this is "
      "likely a mistake, give them one shape",
      facts(fn).name, target.sizes().str(), input.sizes().str());
}

Tensor pair_loss(PairLoss fn, const Tensor& input, const Tensor& target,
                 const PairLossCall& given) {
  if (const auto cast = autocast_of<Op::kPairLoss>(input)) {
    PairLossCall with_weights = given;
    with_weights.weight = cast(given.weight);
    with_weights.pos_weight = cast(given.pos_weight);
    return pair_loss(fn, cast(input), cast(target), with_weights);
  }
  check_probabilities(fn, input, target);
  const auto [x, t] = promoted_pair(input, target, facts(fn).name);
  if (x.sizes() == t.sizes()) return pair_loss_of(fn, x, t, given);
  DL_CHECK(fn != PairLoss::kBce && fn != PairLoss::kBceWithLogits, kShape,
           "{}: the input has shape {}, the target {}; wanted one shape", facts(fn).name,
           input.sizes().str(), target.sizes().str());
  const Shape shape = broadcast_shapes(input.sizes(), target.sizes(), facts(fn).name);
  warn_of_broadcast(fn, input, target);
  return pair_loss_of(fn, x.expand(shape), t.expand(shape), given);
}

// The dot product of each pair of vectors along a dimension.
Tensor dots(const Tensor& a, const Tensor& b, std::int64_t dim) {
  return sum(mul(a, b), {dim});
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossOptions& options) {
  if (const auto cast = autocast_of<Op::kMseLoss>(input)) {
    return mse_loss(cast(input), cast(target), options);
  }
  const auto [left, right] = promoted_pair(input, target, "mse_loss");
  if (left.dtype() != input.dtype() || right.dtype() != target.dtype()) {
    return mse_loss(left, right, options);
  }
  if (options.reduction != Reduction::kMean || input.sizes() != target.sizes()) {
    if (!input.is_cuda()) return pair_loss(PairLoss::kMse, input, target, {options.reduction});
    check_reduction(options.reduction, "mse_loss");
    if (input.sizes() != target.sizes()) warn_of_broadcast(PairLoss::kMse, input, target);
    return reduced(square(sub(input, target)), options.reduction);
  }
  const Tensor x = laid_out(input);
  const Tensor t = laid_out(target);
  Tensor loss = empty({}, {.dtype = input.dtype(), .device = input.device()});
  call<Op::kMseLoss>(input.device(), x, t, loss);
  if (auto* node = record<MseLossBackward>(loss, input, target)) {
    node->save_input(0, x);
    node->save_input(1, t);
  }
  return loss;
}

Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossOptions& options) {
  return pair_loss(PairLoss::kL1, input, target, {options.reduction});
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options) {
  DL_CHECK(options.beta >= 0, kInvalidArgument, "smooth_l1_loss: beta is {}, wanted at least 0",
           options.beta);
  // The formula divides by beta, and l1_loss is its limit.
  if (options.beta == 0) return pair_loss(PairLoss::kL1, input, target, {options.reduction});
  return pair_loss(PairLoss::kSmoothL1, input, target, {options.reduction, options.beta});
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options) {
  DL_CHECK(options.delta > 0, kInvalidArgument, "huber_loss: delta is {}, wanted more than 0",
           options.delta);
  return pair_loss(PairLoss::kHuber, input, target, {options.reduction, options.delta});
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BCELossOptions& options) {
  return pair_loss(PairLoss::kBce, input, target,
                   {.reduction = options.reduction, .weight = options.weight});
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BCEWithLogitsLossOptions& options) {
  return pair_loss(
      PairLoss::kBceWithLogits, input, target,
      {.reduction = options.reduction, .weight = options.weight, .pos_weight = options.pos_weight});
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivLossOptions& options) {
  return pair_loss(options.log_target ? PairLoss::kKlDivLog : PairLoss::kKlDiv, input, target,
                   {options.reduction});
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  const auto [left, right] = promoted_pair(a, b, "cosine_similarity");
  if (left.dtype() != a.dtype() || right.dtype() != b.dtype()) {
    return cosine_similarity(left, right, options);
  }
  DL_CHECK(options.eps >= 0, kInvalidArgument, "cosine_similarity: eps is {}, wanted at least 0",
           options.eps);
  const Shape shape = broadcast_shapes(a.sizes(), b.sizes(), "cosine_similarity");
  const auto dim =
      static_cast<std::int64_t>(wrap_dim(options.dim, shape.size(), "cosine_similarity"));
  const Tensor least = scalar_tensor(options.eps, a.dtype(), "cosine_similarity");
  // A norm that is raised to eps counts as a constant in the gradient, as in PyTorch.
  const auto of_length_one = [&](const Tensor& v) {
    const Tensor length = norm(v, 2, {dim}, {.keepdim = true});
    const Tensor missing = sub(maximum(length, least), length).detach();
    return div(v, add(length, missing));
  };
  return dots(of_length_one(a.expand(shape)), of_length_one(b.expand(shape)), dim);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const CosineEmbeddingLossOptions& options) {
  constexpr std::string_view kOp = "cosine_embedding_loss";
  check_defined(a, kOp, "the first input");
  check_defined(b, kOp, "the second input");
  check_same_device(a, b, kOp);
  check_defined(target, kOp, "the target");
  check_same_device(a, target, kOp);
  DL_CHECK(a.sizes() == b.sizes() && (a.dim() == 1 || a.dim() == 2), kShape,
           "{}: the inputs have shapes {} and {}, wanted both [N, D] or both [D]", kOp,
           a.sizes().str(), b.sizes().str());
  const bool fits = target.dim() == a.dim() - 1 && (a.dim() == 1 || target.size(0) == a.size(0));
  DL_CHECK(fits, kShape, "{}: the target has shape {}, wanted {} for inputs of shape {}", kOp,
           target.sizes().str(), a.dim() == 1 ? "[]" : "one number a row", a.sizes().str());
  check_reduction(options.reduction, kOp);
  // PyTorch's formula: 1e-12 keeps the product of the squared norms above 0.
  const auto squared = [](const Tensor& v) { return add(dots(v, v, -1), 1e-12); };
  const Tensor cosine = div(dots(a, b, -1), sqrt(mul(squared(a), squared(b))));
  const auto where_target_is = [&](double value) { return eq(target, value).to(cosine.dtype()); };
  const Tensor alike = mul(1.0 - cosine, where_target_is(1));
  const Tensor unlike = mul(relu(sub(cosine, options.margin)), where_target_is(-1));
  return reduced(add(alike, unlike), options.reduction);
}

}  // namespace dl
