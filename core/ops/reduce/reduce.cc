#include "core/ops/reduce/reduce.h"

#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/dispatch/takes.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce_gradient.h"

namespace dl {
namespace {

// PyTorch's name of the node; null if it follows from the operation's name. PyTorch has one node
// for sums over all dimensions and another for sums over some.
const char* grad_fn_of_reduction(ReduceFn fn, bool of_all) noexcept {
  switch (fn) {
    case ReduceFn::kSum:
      return of_all ? "SumBackward0" : "SumBackward1";
    case ReduceFn::kMean:
      return of_all ? "MeanBackward0" : "MeanBackward1";
    case ReduceFn::kProd:
      return of_all ? "ProdBackward0" : "ProdBackward1";
    case ReduceFn::kNorm2:
    case ReduceFn::kNorm1:
    case ReduceFn::kNorm0:
    case ReduceFn::kNormLargest:
    case ReduceFn::kNormSmallest:
    case ReduceFn::kNormP:
      return "LinalgVectorNormBackward0";
    default:
      return nullptr;
  }
}

// Saved: the input and the output, as gradient_reads_input() and saves_output() say.
struct ReduceNode final : Node {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    give(context, saves_output(fn) ? saved(1) : Tensor());
  }
  void backward_recorded(BackwardContext& context) override {
    if (!saves_output(fn)) return give(context, Tensor());
    // Saved with the reduced dimensions, which the output itself may not have.
    const Shape& shape = context.grad_output().sizes();
    give(context,
         detail::with_history(saved(1).view(shape), {Ref<Node>(this), 0}).view(kept_shape));
  }
  void give(BackwardContext& context, const Tensor& output) const {
    context.give(0, gradient_of({.fn = fn,
                                 .grad = context.grad_output().reshape(kept_shape),
                                 .input = gradient_reads_input(fn) ? saved(0) : Tensor(),
                                 .output = output,
                                 .shape = input_shape,
                                 .dims = dims,
                                 .count = count,
                                 .p = p}));
  }
  ReduceFn fn{};
  Shape input_shape;
  Shape kept_shape;  // of the result; reduced dimensions have size 1
  Dims dims;
  double count = 0;
  double p = 0;
};

struct ExtremeNode final : Node {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& indices = saved(0);
    const Tensor grad = zeros(input_shape, {.dtype = context.grad_output().dtype(),
                                            .device = context.grad_output().device()});
    const Tensor from = context.grad_output().reshape(indices.sizes());
    call<Op::kMaxBackward>(grad.device(), from, indices, dim, grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor from = context.grad_output().reshape(saved(0).sizes());
    const Tensor none = zeros(input_shape, {.dtype = from.dtype(), .device = from.device()});
    context.give(0, none.scatter_add(dim, saved(0), from));
  }
  ExtremeFn fn{};
  Shape input_shape;
  std::int64_t dim = 0;
};

// For an extreme over all elements: equal elements share the gradient.
struct ExtremeOfAllNode final : ComposedNode {
  std::string_view name() const noexcept override { return facts(fn).name; }
  std::string grad_fn_name() const override {
    return fn == ExtremeFn::kMax ? "MaxBackward1" : "MinBackward1";
  }
  void backward(BackwardContext& context) override {
    context.give(0, shared_among_equals(context.grad_output(), saved(0), saved(1)));
  }
  ExtremeFn fn{};
};

DType result_dtype(Reduced gives, DType input) {
  switch (gives) {
    case Reduced::kInput:
      return input;
    case Reduced::kLong:
      return is_floating(input) ? input : DType::kI64;
    case Reduced::kTruth:
      return input == DType::kU8 ? input : DType::kBool;
    case Reduced::kIndex:
      return DType::kI64;
  }
  return input;
}

bool keeps_smallest(ReduceFn fn) {
  return fn == ReduceFn::kAmin || fn == ReduceFn::kNormSmallest;
}

// Throws for integer dtypes that int64 cannot represent, since integers are compared as int64.
void check_ordered(DType dtype, std::string_view op) {
  if (dtype == DType::kU64) refuse_dtype(op, dtype, "a smaller or signed integer");
}

void check_not_empty(const Shape& shape, std::size_t dim, bool smallest, std::string_view op) {
  DL_CHECK(shape[dim] > 0, kShape, "{}: dimension {} of {} is empty and has no {} element", op, dim,
           shape.str(), smallest ? "smallest" : "largest");
}

struct Shapes {
  Shape kept;    // reduced dimensions have size 1
  Shape result;  // as requested by keepdim
  Dims dims;     // the reduced ones, in order
  double count = 1;
};

Shapes shapes_of(const Shape& input, const Dims& dims, bool keepdim, std::string_view op) {
  Shapes shapes{.kept = input, .result = {}, .dims = {}};
  Dims reduced(input.size(), dims.empty() ? 1 : 0);
  for (const std::int64_t dim : dims) {
    const std::size_t d = wrap_dim(dim, input.size(), op);
    if (input.empty()) continue;
    DL_CHECK(reduced[d] == 0, kInvalidArgument, "{}: dimension {} is named twice", op, d);
    reduced[d] = 1;
  }
  for (std::size_t d = 0; d < input.size(); ++d) {
    if (reduced[d] == 0) {
      shapes.result.push_back(input[d]);
      continue;
    }
    if (keepdim) shapes.result.push_back(1);
    shapes.dims.push_back(static_cast<std::int64_t>(d));
    shapes.count *= static_cast<double>(input[d]);
    shapes.kept[d] = 1;
  }
  return shapes;
}

// Without history.
Tensor reshaped(const Tensor& tensor, const Shape& shape) {
  if (tensor.sizes() == shape) return tensor;
  const NoGradGuard no_grad;
  return tensor.view(shape).detach();
}

Tensor flat(const Tensor& input) {
  return input.detach().reshape({-1});
}

}  // namespace

Tensor reduce(ReduceFn fn, const Tensor& input, const DimList& dims, ReduceOptions options,
              double p) {
  if (const auto cast = autocast_of(fn, input)) return reduce(fn, cast(input), dims, options, p);
  const ReductionFacts& row = facts(fn);
  check_defined(input, row.name, "the input");
  const Tensor operand = promoted(input, row.takes, row.name);
  const Shapes shapes = shapes_of(operand.sizes(), dims.dims(), options.keepdim, row.name);
  if (row.empty_input == EmptyInput::kError) {
    check_ordered(operand.dtype(), row.name);
    for (const std::int64_t dim : shapes.dims) {
      check_not_empty(operand.sizes(), static_cast<std::size_t>(dim), keeps_smallest(fn), row.name);
    }
  }
  const Tensor kept = empty(
      shapes.kept, {.dtype = result_dtype(row.gives, operand.dtype()), .device = operand.device()});
  // The norm of one number is its magnitude, also if the power of a tiny number underflows to 0.
  const bool of_one = shapes.count == 1 && (fn == ReduceFn::kNorm2 || fn == ReduceFn::kNormP);
  call<Op::kReduce>(operand.device(), of_one ? ReduceFn::kNormLargest : fn, operand, p, kept);
  const Tensor result = reshaped(kept, shapes.result);
  if (row.gradient == Gradient::kNoGradient || !is_floating(result.dtype())) return result;
  if (auto* node = record<ReduceNode>(result, operand)) {
    node->fn = fn;
    node->set_grad_fn_name(grad_fn_of_reduction(fn, dims.dims().empty()));
    node->input_shape = operand.sizes();
    node->kept_shape = shapes.kept;
    node->dims = shapes.dims;
    node->count = shapes.count;
    node->p = p;
    if (gradient_reads_input(fn)) node->save(operand);
    // PyTorch does not save a variance, so the user may change it in place.
    if (saves_output(fn)) node->save_constant(fn == ReduceFn::kVar ? kept.clone() : kept);
  }
  return result;
}

Tensor nanmean(const Tensor& input, const DimList& dims, ReduceOptions options) {
  check_defined(input, "nanmean", "the input");
  check_floating(input, "nanmean");
  const Tensor count = sum(eq(input.detach(), input.detach()), dims, options);
  return div(nansum(input, dims, options), count);
}

std::pair<Tensor, Tensor> aminmax(const Tensor& input, const DimList& dims, ReduceOptions options) {
  return {amin(input, dims, options), amax(input, dims, options)};
}

Tensor var(const Tensor& input, const DimList& dims, VarOptions options) {
  return reduce(ReduceFn::kVar, input, dims, {.keepdim = options.keepdim}, options.correction);
}

Tensor std(const Tensor& input, const DimList& dims, VarOptions options) {
  return reduce(ReduceFn::kStd, input, dims, {.keepdim = options.keepdim}, options.correction);
}

Tensor norm(const Tensor& input, double p, const DimList& dims, ReduceOptions options) {
  const ReduceFn fn = p == 2            ? ReduceFn::kNorm2
                      : p == 1          ? ReduceFn::kNorm1
                      : p == 0          ? ReduceFn::kNorm0
                      : p == kInfinity  ? ReduceFn::kNormLargest
                      : -p == kInfinity ? ReduceFn::kNormSmallest
                                        : ReduceFn::kNormP;
  return reduce(fn, input, dims, options, p);
}

namespace {

std::pair<Tensor, Tensor> extreme_named(ExtremeFn fn, const Tensor& input, std::int64_t dim,
                                        ReduceOptions options, std::string_view op) {
  check_defined(input, op, "the input");
  if (input.dim() == 0) {
    wrap_dim(dim, 0, op);
    return extreme_named(fn, input.view({1}), 0, {}, op);
  }
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  check_ordered(input.dtype(), op);
  check_not_empty(input.sizes(), d, fn == ExtremeFn::kMin, op);
  const Shapes shapes =
      shapes_of(input.sizes(), {static_cast<std::int64_t>(d)}, options.keepdim, op);
  const Tensor kept_values = empty(shapes.kept, {.dtype = input.dtype(), .device = input.device()});
  const Tensor places = empty(shapes.kept, {.dtype = DType::kI64, .device = input.device()});
  call<Op::kExtreme>(input.device(), fn, input, static_cast<std::int64_t>(d), kept_values, places);
  const Tensor values = reshaped(kept_values, shapes.result);
  if (is_floating(values.dtype())) {
    if (auto* node = record<ExtremeNode>(values, input)) {
      node->fn = fn;
      node->input_shape = input.sizes();
      node->dim = static_cast<std::int64_t>(d);
      node->save(places);
    }
  }
  return {values, reshaped(places, shapes.result)};
}

}  // namespace

std::pair<Tensor, Tensor> extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim,
                                  ReduceOptions options) {
  return extreme_named(fn, input, dim, options, facts(fn).name);
}

Tensor extreme(ExtremeFn fn, const Tensor& input) {
  const std::string_view op = facts(fn).name;
  check_defined(input, op, "the input");
  const Tensor all = flat(input);
  check_ordered(all.dtype(), op);
  check_not_empty(all.sizes(), 0, fn == ExtremeFn::kMin, op);
  const Tensor result = reduce(facts(fn).value, all);
  if (auto* node = record<ExtremeOfAllNode>(result, input)) {
    node->fn = fn;
    node->save(input);
    node->save(result);
  }
  return result;
}

Tensor index_of_extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim,
                        ReduceOptions options) {
  check_defined(input, facts(fn).arg_name, "the input");
  return extreme_named(fn, input.detach(), dim, options, facts(fn).arg_name).second;
}

Tensor index_of_extreme(ExtremeFn fn, const Tensor& input) {
  check_defined(input, facts(fn).arg_name, "the input");
  return extreme_named(fn, flat(input), 0, {}, facts(fn).arg_name).second;
}

#define DL_REDUCTION(enumerator, name, ...)                               \
  Tensor Tensor::name(const DimList& dims, ReduceOptions options) const { \
    get(#name);                                                           \
    return reduce(ReduceFn::enumerator, *this, dims, options);            \
  }
#define DL_EXTREME(enumerator, name, arg_name, ...)                                       \
  std::pair<Tensor, Tensor> Tensor::name(std::int64_t dim, ReduceOptions options) const { \
    get(#name);                                                                           \
    return extreme(ExtremeFn::enumerator, *this, dim, options);                           \
  }                                                                                       \
  Tensor Tensor::name() const {                                                           \
    get(#name);                                                                           \
    return extreme(ExtremeFn::enumerator, *this);                                         \
  }                                                                                       \
  Tensor Tensor::arg_name(std::int64_t dim, ReduceOptions options) const {                \
    get(#arg_name);                                                                       \
    return index_of_extreme(ExtremeFn::enumerator, *this, dim, options);                  \
  }                                                                                       \
  Tensor Tensor::arg_name() const {                                                       \
    get(#arg_name);                                                                       \
    return index_of_extreme(ExtremeFn::enumerator, *this);                                \
  }
#include "core/reductions/list.def"

Tensor Tensor::var(const DimList& dims, VarOptions options) const {
  get("var");
  return dl::var(*this, dims, options);
}
Tensor Tensor::std(const DimList& dims, VarOptions options) const {
  get("std");
  return dl::std(*this, dims, options);
}
Tensor Tensor::norm(double p, const DimList& dims, ReduceOptions options) const {
  get("norm");
  return dl::norm(*this, p, dims, options);
}

}  // namespace dl
