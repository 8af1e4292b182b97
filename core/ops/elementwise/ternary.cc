// Functions of three operands: `where`, clamp, lerp, addcmul, addcdiv, masked_fill.
#include <limits>

#include "core/ops/dispatch/takes.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

struct WhereBackward final : BinaryNode {
  std::string_view name() const noexcept override { return "where"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(where(saved(0), g, 0.0)));
    if (context.needs(1)) context.give(1, inputs[1].reduce_grad(where(saved(0), 0.0, g)));
  }
};

struct LerpBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "lerp"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (number) {
      if (context.needs(0)) context.give(0, inputs[0].reduce_grad(mul(g, 1.0 - *number)));
      if (context.needs(1)) context.give(1, inputs[1].reduce_grad(mul(g, *number)));
      return;
    }
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(mul(g, 1.0 - saved(2))));
    if (context.needs(1)) context.give(1, inputs[1].reduce_grad(mul(g, saved(2))));
    if (context.needs(2)) context.give(2, inputs[2].reduce_grad(mul(g, sub(saved(1), saved(0)))));
  }
  std::optional<double> number{};  // the weight, if it is a number
  InputMetadata inputs[3];
};

// The node of x + value a b and of x + value a / b. It saves a and b if a wanted gradient reads
// them.
struct AddcBackward final : ComposedNode {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, inputs[0].reduce_grad(g));
    if (!context.needs(1) && !context.needs(2)) return;
    const Tensor scaled = mul(g, factor);
    const bool divides = fn == TernaryFn::kAddcdiv;
    if (context.needs(1)) {
      context.give(1,
                   inputs[1].reduce_grad(divides ? div(scaled, saved(1)) : mul(scaled, saved(1))));
    }
    if (!context.needs(2)) return;
    const Tensor& a = saved(0);
    if (divides) {
      const Tensor& b = saved(1);
      context.give(2, inputs[2].reduce_grad(neg(mul(scaled, div(a, mul(b, b))))));
    } else {
      context.give(2, inputs[2].reduce_grad(mul(scaled, a)));
    }
  }
  TernaryFn fn{};
  double factor = 1;
  InputMetadata inputs[3];
};

struct ClampBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "clamp"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& x = saved(0);
    const Tensor& low = saved(1);
    const Tensor& high = saved(2);
    // PyTorch's rules: if x equals a bound, each gets half; if one of the three is NaN, x gets all.
    const Tensor half = mul(g, 0.5);
    const Tensor ordered = lt(low, high);
    const Tensor known = logical_and(logical_and(eq(x, x), eq(low, low)), eq(high, high));
    const auto tie = [&](const Tensor& bound) { return logical_and(ordered, eq(x, bound)); };
    const Tensor below = logical_and(known, logical_and(lt(x, low), le(low, high)));
    const Tensor above = logical_and(known, logical_or(lt(high, x), lt(high, low)));
    if (context.needs(0)) {
      const Tensor inside = where(logical_or(tie(low), tie(high)), half, g);
      context.give(0, inputs[0].reduce_grad(where(logical_or(below, above), 0.0, inside)));
    }
    if (context.needs(1)) {
      context.give(1, inputs[1].reduce_grad(where(tie(low), half, where(below, g, 0.0))));
    }
    if (context.needs(2)) {
      context.give(2, inputs[2].reduce_grad(where(tie(high), half, where(above, g, 0.0))));
    }
  }
  InputMetadata inputs[3];
};

// masked_fill_: input 0 is the filled tensor, input 1 the value.
struct MaskedFillBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "masked_fill_"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, where(saved(0), 0.0, g));
    if (context.needs(1)) context.give(1, value.reduce_grad(where(saved(0), g, 0.0)));
  }
  InputMetadata value;
};

void check_condition(const Tensor& condition, std::string_view op, std::string_view what) {
  check_defined(condition, op, what);
  DL_CHECK(condition.dtype() == DType::kBool, kDType, "{}: {} is {}, wanted bool", op, what,
           name_of(condition.dtype()));
}

// Promotes the operands to `dtype` and runs the row's kernel into a new tensor; not recorded.
Tensor run_ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c, DType dtype,
                   const Parameters& parameters = {}) {
  const std::string_view op = facts(fn).name;
  const Device device = common_device(a.is_cuda() || a.dim() > 0 ? a : b, c, op);
  const Shape shape = broadcast_shapes(broadcast_shapes(a.sizes(), b.sizes(), op), c.sizes(), op);
  // The layout of the result follows the converted operands, as in PyTorch.
  const Tensor first = fn == TernaryFn::kWhere ? a : operand_of(a, dtype);  // a: a condition
  const Tensor second = operand_of(b, dtype);
  const Tensor third = operand_of(c, dtype);
  const Tensor out = empty_for(shape, {&first, &second, &third}, dtype, device);
  call<Op::kTernary>(device, fn, first, second, third, parameters, out);
  return out;
}

Tensor choose(const Tensor& condition, const Tensor& a, const Tensor& b, DType dtype) {
  check_condition(condition, "where", "the condition");
  const Tensor out = run_ternary(TernaryFn::kWhere, condition, a, b, dtype);
  if (auto* node = record_binary<WhereBackward>(out, a, b)) node->save(condition);
  return out;
}

// The caller saves what N reads.
template <typename N>
N* record_three(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c) {
  auto* const node = record<N>(out, a, b, c);
  if (node == nullptr) return nullptr;
  std::size_t i = 0;
  for (const Tensor* each : {&a, &b, &c}) node->inputs[i++] = InputMetadata(*each);
  return node;
}

Tensor addc(TernaryFn fn, const Tensor& input, const Tensor& a, const Tensor& b, Scalar value) {
  const std::string_view op = facts(fn).name;
  check_defined(input, op, "the first operand");
  check_defined(a, op, "the second operand");
  check_defined(b, op, "the third operand");
  const DType dtype = result_type(input, a, b, op);
  computed_dtype(dtype, facts(fn).takes, op);
  DL_CHECK(value.kind() != Scalar::Kind::kFloating || is_floating(dtype), kDType,
           "{}: value is {} and the result {}, wanted a whole number", op, value.str(),
           name_of(dtype));
  check_fits(value, dtype, op);
  const Parameters factor{.a = value.as_double(),
                          .whole = static_cast<std::int64_t>(value.to<std::uint64_t>())};
  const Tensor out = run_ternary(fn, input, a, b, dtype, factor);
  if (!is_floating(dtype)) return out;
  if (auto* node = record_three<AddcBackward>(out, input, a, b)) {
    node->fn = fn;
    node->factor = value.as_double();
    const bool reads_both = fn == TernaryFn::kAddcdiv && needs_grad(b);
    node->save(needs_grad(b) ? a : Tensor());
    node->save(needs_grad(a) || reads_both ? b : Tensor());
  }
  return out;
}

struct Bounds {
  DType dtype = DType::kF32;  // of the result
  Parameters given;
};

Bounds bounds_of(const Tensor& input, const std::optional<Scalar>& min,
                 const std::optional<Scalar>& max, std::string_view op) {
  check_defined(input, op, "the input");
  DL_CHECK(min || max, kInvalidArgument, "{}: neither min nor max is given", op);
  Bounds bounds;
  bounds.dtype = input.dtype();
  for (const auto& bound : {min, max}) {
    if (bound && !is_floating(bounds.dtype)) bounds.dtype = result_type(input, *bound);
  }
  computed_dtype(bounds.dtype, Takes::kNumbers, op);
  for (const auto& bound : {min, max}) {
    if (bound && is_floating(bounds.dtype)) check_storable(*bound, bounds.dtype, op);
  }
  bounds.given.a = min ? min->as_double() : -std::numeric_limits<double>::infinity();
  bounds.given.b = max ? max->as_double() : std::numeric_limits<double>::infinity();
  return bounds;
}

// The least and the largest number of an integer dtype.
std::pair<double, double> range_of(DType dtype) {
  return visit_all(dtype, []<typename T>() -> std::pair<double, double> {
    if constexpr (std::is_integral_v<T>) {
      return {static_cast<double>(std::numeric_limits<T>::min()),
              static_cast<double>(std::numeric_limits<T>::max())};
    }
    return {-kInfinity, kInfinity};
  });
}

// The largest finite number of a floating dtype.
double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

// `weight` is undefined if it is a number.
Tensor lerp_by(const Tensor& a, const Tensor& b, const Tensor& weight,
               std::optional<double> number) {
  DType dtype = common_dtype(a, b, "lerp");
  if (!number) check_defined(weight, "lerp", "the weight");
  if (!number && weight.dim() > 0) dtype = promote_types(dtype, weight.dtype(), "lerp");
  computed_dtype(dtype, Takes::kFloating, "lerp");
  const Tensor by = number ? as_number(*number, dtype, "lerp") : weight;
  const Tensor out = run_ternary(TernaryFn::kLerp, a, b, by, dtype);
  auto* const node = record_three<LerpBackward>(out, a, b, by);
  if (node == nullptr) return out;
  node->number = number;
  if (number) return out;
  node->set_grad_fn_name("LerpBackward1");
  const bool to_weight = needs_grad(weight);
  node->save(to_weight ? a : Tensor());
  node->save(to_weight ? b : Tensor());
  node->save(needs_grad(a) || needs_grad(b) ? weight : Tensor());
  return out;
}

// masked_fill_() and, into a copy, masked_fill(): `op` is the name that the caller used.
Tensor& fill_where(Tensor& input, const Tensor& mask, const Tensor& value, std::string_view op) {
  check_defined(input, op, "the input");
  check_condition(mask, op, "the mask");
  check_defined(value, op, "the value");
  DL_CHECK(value.dim() == 0, kShape,
           "{}: the value has shape {}, wanted no dimension; use where() for others", op,
           value.sizes().str());
  DL_CHECK(broadcast_shapes(input.sizes(), mask.sizes(), op) == input.sizes(), kShape,
           "{}: a mask of shape {} does not fit onto a tensor of shape {}", op, mask.sizes().str(),
           input.sizes().str());
  DL_CHECK(promote_types(input.dtype(), value.dtype(), op) == input.dtype() ||
               is_floating(input.dtype()) == is_floating(value.dtype()),
           kDType, "{}: a value of {} cannot be written into a tensor of {}", op,
           name_of(value.dtype()), name_of(input.dtype()));
  const bool recorded = is_recorded(input, value) && is_floating(input.dtype());
  check_in_place(input, recorded, op);
  check_not_expanded(input, op);
  const Ref<MaskedFillBackward> node =
      recorded ? make_node<MaskedFillBackward>(detail::before_write(input), value) : nullptr;
  const Tensor kept = node ? mask.clone() : readable_during_write(mask, input);
  call<Op::kTernary>(input.device(), TernaryFn::kWhere, kept, operand_of(value, input.dtype()),
                     input, Parameters{}, input);
  input.bump_version();
  if (node) {
    if (needs_grad(value)) node->set_grad_fn_name("MaskedFillBackward1");
    node->value = InputMetadata(value);
    node->save(kept);
    detail::attach_written(input, node);
  }
  return input;
}

Tensor filled_where(const Tensor& input, const Tensor& mask, const Tensor& value) {
  check_defined(input, "masked_fill", "the input");
  check_defined(mask, "masked_fill", "the mask");
  const Shape shape = broadcast_shapes(input.sizes(), mask.sizes(), "masked_fill");
  Tensor result =
      (shape == input.sizes() ? input : input.expand(shape)).clone(MemoryFormat::kContiguous);
  return fill_where(result, mask, value, "masked_fill");
}

// A number as the value that fills `input`.
Tensor fill_of(const Tensor& input, Scalar value, std::string_view op) {
  check_defined(input, op, "the input");
  check_storable(value, input.dtype(), op);
  return as_number(value, input.dtype(), op);
}

}  // namespace

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  return lerp_by(a, b, weight, {});
}

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  return lerp_by(a, b, {}, weight);
}

Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value) {
  return addc(TernaryFn::kAddcmul, input, a, b, value);
}
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar value) {
  return addc(TernaryFn::kAddcdiv, input, a, b, value);
}

Tensor nan_to_num(const Tensor& input, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  check_defined(input, "nan_to_num", "the input");
  if (!is_floating(input.dtype())) return input.clone();
  const double largest = largest_finite(input.dtype());
  const Tensor above = where(eq(input, kInfinity), posinf.value_or(largest), input);
  const Tensor below = where(eq(input, -kInfinity), neginf.value_or(-largest), above);
  return detail::finish_composed(where(ne(input, input), nan, below), input, "NanToNumBackward0");
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return choose(condition, a, b, common_dtype(a, b, "where"));
}
Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  const DType dtype = dtype_with(a, b, "where");
  return choose(condition, a, as_number(b, dtype, "where"), dtype);
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  const DType dtype = dtype_with(b, a, "where");
  return choose(condition, as_number(a, dtype, "where"), b, dtype);
}
Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  const Tensor left = full({}, a);
  const DType dtype = dtype_with(left, b, "where");
  return choose(condition, left, as_number(b, dtype, "where"), dtype);
}

Tensor clamp(const Tensor& input, std::optional<Scalar> min, std::optional<Scalar> max) {
  const Bounds bounds = bounds_of(input, min, max, "clamp");
  const Tensor operand = promoted_to(input, bounds.dtype);
  if (is_floating(bounds.dtype)) return unary(UnaryFn::kClamp, operand, bounds.given);
  Tensor out = operand;
  // A min below the dtype's range, or a max above it, has no effect and is dropped.
  const auto bound = [&](BinaryFn fn, const std::optional<Scalar>& value, bool beyond) {
    if (!value || beyond) return;
    out = run_binary_as(fn, out, as_number(*value, bounds.dtype, "clamp"), bounds.dtype);
  };
  const auto [lowest, highest] = range_of(bounds.dtype);
  DL_CHECK((!min || min->as_double() <= highest) && (!max || max->as_double() >= lowest),
           kInvalidArgument, "clamp: {} has numbers from {} to {}, wanted bounds among them",
           name_of(bounds.dtype), lowest, highest);
  bound(BinaryFn::kMaximum, min, min && min->as_double() < lowest);
  bound(BinaryFn::kMinimum, max, max && max->as_double() > highest);
  return out.is_same(input) ? input.clone() : out;
}

Tensor clamp(const Tensor& input, const Tensor& min, const Tensor& max) {
  check_defined(input, "clamp", "the input");
  check_defined(min, "clamp", "min");
  check_defined(max, "clamp", "max");
  const DType dtype = result_type(input, min, max, "clamp");
  computed_dtype(dtype, Takes::kNumbers, "clamp");
  const Tensor out = run_ternary(TernaryFn::kBetween, input, min, max, dtype);
  if (auto* node = record_three<ClampBackward>(out, input, min, max)) {
    node->save(input);
    node->save(min);
    node->save(max);
  }
  return out;
}

Tensor clamp_min(const Tensor& input, Scalar min) {
  return clamp(input, min);
}

Tensor clamp_max(const Tensor& input, Scalar max) {
  return clamp(input, {}, max);
}

Tensor& clamp_(Tensor& input, std::optional<Scalar> min, std::optional<Scalar> max) {
  const Bounds bounds = bounds_of(input, min, max, "clamp_");
  DL_CHECK(bounds.dtype == input.dtype(), kDType,
           "clamp_: a result of dtype {} cannot be written into a tensor of {}",
           name_of(bounds.dtype), name_of(input.dtype()));
  if (is_floating(bounds.dtype)) return unary_(UnaryFn::kClamp, input, bounds.given);
  return input.copy_(clamp(input, min, max));
}

Tensor& masked_fill_(Tensor& input, const Tensor& mask, const Tensor& value) {
  return fill_where(input, mask, value, "masked_fill_");
}

Tensor& masked_fill_(Tensor& input, const Tensor& mask, Scalar value) {
  return fill_where(input, mask, fill_of(input, value, "masked_fill_"), "masked_fill_");
}

Tensor masked_fill(const Tensor& input, const Tensor& mask, Scalar value) {
  return filled_where(input, mask, fill_of(input, value, "masked_fill"));
}

Tensor masked_fill(const Tensor& input, const Tensor& mask, const Tensor& value) {
  return filled_where(input, mask, value);
}

}  // namespace dl
