#include "core/ops/numeric.h"

#include <limits>

#include "core/ops/arithmetic.h"
#include "core/ops/autocast.h"
#include "core/ops/binary.h"
#include "core/ops/logic.h"
#include "core/ops/reduce.h"
#include "core/ops/takes.h"
#include "core/tensor/promote.h"

namespace dl {
namespace {

// How the gradient g of a result goes to its operands, which have the result's dtype.
using GradientOf = Tensor (*)(const Tensor& g, const Tensor& a, const Tensor& b);
struct BinaryRule {
  BinaryFn fn;
  const char* grad_fn;  // PyTorch's name of the node
  GradientOf to_a;
  GradientOf to_b;
};

constexpr BinaryRule kPowerRule{BinaryFn::kPower, "PowBackward1",
                                [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                  return where(eq(b, 0.0), 0.0,
                                               mul(g, mul(b, pow(a, sub(b, 1.0)))));
                                },
                                [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                  const Tensor is_flat = logical_and(eq(a, 0.0), ge(b, 0.0));
                                  return where(is_flat, 0.0, mul(g, mul(pow(a, b), log(a))));
                                }};

constexpr BinaryRule kAtan2Rule{BinaryFn::kAtan2, "Atan2Backward0",
                                [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                  return mul(g, div(b, add(square(a), square(b))));
                                },
                                [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                  return neg(mul(g, div(a, add(square(a), square(b)))));
                                }};

constexpr BinaryRule kFmodRule{BinaryFn::kFmod, "FmodBackward1",
                               [](const Tensor& g, const Tensor&, const Tensor&) { return g; },
                               [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                 return neg(mul(g, trunc(div(a, b))));
                               }};

constexpr BinaryRule kRemainderRule{BinaryFn::kRemainder, "RemainderBackward1",
                                    [](const Tensor& g, const Tensor&, const Tensor&) { return g; },
                                    [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                      return neg(mul(g, floor_divide(a, b)));
                                    }};

// Saved: the operands.
struct RuleBackward final : BinaryNode {
  std::string_view name() const noexcept override { return facts(rule->fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, shares[0].of(rule->to_a(g, saved(0), saved(1))));
    if (context.needs(1)) context.give(1, shares[1].of(rule->to_b(g, saved(0), saved(1))));
  }
  const BinaryRule* rule = nullptr;
};

Tensor by_rule(const BinaryRule& rule, const Tensor& a, const Tensor& b, DType common) {
  const std::string_view op = facts(rule.fn).name;
  const BinaryOperands operands = prepare_operands(a, b, computed_in(rule.fn, common), op);
  const Tensor out = run_binary(rule.fn, operands);
  if (auto* node = record_binary<RuleBackward>(out, a, b)) {
    node->rule = &rule;
    node->show_as(rule.grad_fn);
    node->save(operands.a.detach());
    node->save(operands.b.detach());
  }
  return out;
}

// A number's dtype is the result's, so that tests of zeros see what the kernel sees.
Tensor number_like(const Tensor& a, Scalar b, BinaryFn fn) {
  const std::string_view op = facts(fn).name;
  return as_number(b, computed_in(fn, dtype_with(a, b, op)), op);
}

void check_divisor(const Tensor& divisor, DType dtype, std::string_view op) {
  if (is_floating(dtype) || divisor.numel() == 0) return;
  DL_CHECK(sum(eq(divisor, 0)).item<std::int64_t>() == 0, kInvalidArgument,
           "{}: the divisor is 0 somewhere, by which integers cannot be divided; convert one "
           "operand to a floating dtype",
           op);
}

struct WhereBackward final : BinaryNode {
  std::string_view name() const noexcept override { return "where"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, shares[0].of(where(saved(0), g, 0.0)));
    if (context.needs(1)) context.give(1, shares[1].of(where(saved(0), 0.0, g)));
  }
};

struct LerpBackward final : Node {
  std::string_view name() const noexcept override { return "lerp"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& w = saved(2);
    if (context.needs(0)) context.give(0, shares[0].of(mul(g, 1.0 - w)));
    if (context.needs(1)) context.give(1, shares[1].of(mul(g, w)));
    if (context.needs(2)) context.give(2, shares[2].of(mul(g, sub(saved(1), saved(0)))));
  }
  GradientShare shares[3];
};

struct ClampBackward final : Node {
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
      context.give(0, shares[0].of(where(logical_or(below, above), 0.0, inside)));
    }
    if (context.needs(1)) {
      context.give(1, shares[1].of(where(tie(low), half, where(below, g, 0.0))));
    }
    if (context.needs(2)) {
      context.give(2, shares[2].of(where(tie(high), half, where(above, g, 0.0))));
    }
  }
  GradientShare shares[3];
};

// masked_fill_: input 0 is what was filled, input 1 the value.
struct MaskedFillBackward final : Node {
  std::string_view name() const noexcept override { return "masked_fill_"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, where(saved(0), 0.0, g));
    if (context.needs(1)) context.give(1, value.of(where(saved(0), g, 0.0)));
  }
  GradientShare value;
};

void check_condition(const Tensor& condition, std::string_view op, std::string_view what) {
  check_defined(condition, op, what);
  DL_CHECK(condition.dtype() == DType::kBool, kDType, "{}: {} is {}, wanted bool", op, what,
           name_of(condition.dtype()));
}

// The row of three operands, into a new tensor; not recorded.
Tensor run_ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c, DType dtype) {
  const std::string_view op = facts(fn).name;
  const Device device = common_device(a.is_cuda() || a.dim() > 0 ? a : b, c, op);
  const Shape shape = broadcast_shapes(broadcast_shapes(a.sizes(), b.sizes(), op), c.sizes(), op);
  const Tensor out = empty(shape, {.dtype = dtype, .device = device});
  call<Op::kTernary>(device, fn, a, b, c, out);
  return out;
}

Tensor choose(const Tensor& condition, const Tensor& a, const Tensor& b, DType dtype) {
  check_condition(condition, "where", "the condition");
  const Tensor out =
      run_ternary(TernaryFn::kWhere, condition, operand_of(a, dtype), operand_of(b, dtype), dtype);
  if (auto* node = record_binary<WhereBackward>(out, a, b)) node->save(condition);
  return out;
}

template <typename N>
N* record_three(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c) {
  auto* const node = record<N>(out, a, b, c);
  if (node == nullptr) return nullptr;
  std::size_t i = 0;
  for (const Tensor* each : {&a, &b, &c}) {
    node->shares[i++] = GradientShare(*each);
    node->save(each->detach());
  }
  return node;
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

}  // namespace

Tensor pow(const Tensor& base, Scalar exponent) {
  check_defined(base, "pow", "the base");
  if (is_floating(base.dtype()) || exponent.kind() == Scalar::Kind::kFloating) {
    const Tensor floating = is_floating(base.dtype()) ? base : base.to(DType::kF32);
    return unary(UnaryFn::kPow, floating, {.a = exponent.as_double()});
  }
  DL_CHECK(exponent.as_double() >= 0, kInvalidArgument,
           "pow: the exponent of integers is {}, wanted at least 0; convert the base to a floating "
           "dtype",
           exponent.str());
  const Tensor number = number_like(base, exponent, BinaryFn::kPower);
  return run_binary_as(BinaryFn::kPower, base, number, number.dtype());
}

Tensor pow(const Tensor& base, const Tensor& exponent) {
  if (const auto cast = autocast_of(BinaryFn::kPower, base)) return pow(cast(base), cast(exponent));
  return by_rule(kPowerRule, base, exponent, common_dtype(base, exponent, "pow"));
}

Tensor pow(Scalar base, const Tensor& exponent) {
  if (const auto cast = autocast_of(BinaryFn::kPower, exponent)) return pow(base, cast(exponent));
  const Tensor number = number_like(exponent, base, BinaryFn::kPower);
  return detail::shown_as(by_rule(kPowerRule, number, exponent, dtype_with(exponent, base, "pow")),
                          exponent, "PowBackward2");
}

Tensor atan2(const Tensor& a, const Tensor& b) {
  return by_rule(kAtan2Rule, a, b, common_dtype(a, b, "atan2"));
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "fmod");
  check_divisor(b, dtype, "fmod");
  return by_rule(kFmodRule, a, b, dtype);
}
Tensor fmod(const Tensor& a, Scalar b) {
  const Tensor number = number_like(a, b, BinaryFn::kFmod);
  check_divisor(number, number.dtype(), "fmod");
  return detail::shown_as(by_rule(kFmodRule, a, number, dtype_with(a, b, "fmod")), a,
                          "FmodBackward0");
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "remainder");
  check_divisor(b, dtype, "remainder");
  return by_rule(kRemainderRule, a, b, dtype);
}
Tensor remainder(const Tensor& a, Scalar b) {
  const Tensor number = number_like(a, b, BinaryFn::kRemainder);
  check_divisor(number, number.dtype(), "remainder");
  return detail::shown_as(by_rule(kRemainderRule, a, number, dtype_with(a, b, "remainder")), a,
                          "RemainderBackward0");
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "floor_divide");
  check_divisor(b, dtype, "floor_divide");
  return run_binary_as(BinaryFn::kFloorDivide, a, b, dtype);
}
Tensor floor_divide(const Tensor& a, Scalar b) {
  const Tensor number = number_like(a, b, BinaryFn::kFloorDivide);
  check_divisor(number, number.dtype(), "floor_divide");
  return run_binary_as(BinaryFn::kFloorDivide, a, number, dtype_with(a, b, "floor_divide"));
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  DType dtype = common_dtype(a, b, "lerp");
  check_defined(weight, "lerp", "the weight");
  if (weight.dim() > 0) dtype = promote_types(dtype, weight.dtype(), "lerp");
  computed_dtype(dtype, Takes::kFloating, "lerp");
  const Tensor out = run_ternary(TernaryFn::kLerp, operand_of(a, dtype), operand_of(b, dtype),
                                 operand_of(weight, dtype), dtype);
  if (auto* node = record_three<LerpBackward>(out, a, b, weight)) node->show_as("LerpBackward1");
  return out;
}

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  return detail::shown_as(lerp(a, b, as_number(weight, common_dtype(a, b, "lerp"), "lerp")), a,
                          "LerpBackward0");
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
  // A min below the dtype's range, or a max above it, changes nothing and is left out.
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
  return out;
}

Tensor clamp(const Tensor& input, const Tensor& min, const Tensor& max) {
  check_defined(max, "clamp", "max");
  const DType dtype =
      promote_types(common_dtype(input, min, "clamp"), common_dtype(input, max, "clamp"), "clamp");
  computed_dtype(dtype, Takes::kNumbers, "clamp");
  const Tensor out = run_ternary(TernaryFn::kBetween, operand_of(input, dtype),
                                 operand_of(min, dtype), operand_of(max, dtype), dtype);
  record_three<ClampBackward>(out, input, min, max);
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
  constexpr std::string_view kName = "masked_fill_";
  check_defined(input, kName, "the input");
  check_condition(mask, kName, "the mask");
  check_defined(value, kName, "the value");
  DL_CHECK(value.dim() == 0, kShape,
           "masked_fill_: the value has shape {}, wanted no dimension; use where() for others",
           value.sizes().str());
  DL_CHECK(broadcast_shapes(input.sizes(), mask.sizes(), kName) == input.sizes(), kShape,
           "masked_fill_: a mask of shape {} does not fit onto a tensor of shape {}",
           mask.sizes().str(), input.sizes().str());
  DL_CHECK(promote_types(input.dtype(), value.dtype(), kName) == input.dtype() ||
               is_floating(input.dtype()) == is_floating(value.dtype()),
           kDType, "masked_fill_: a value of {} cannot be written into a tensor of {}",
           name_of(value.dtype()), name_of(input.dtype()));
  const bool recorded = is_recorded(input, value) && is_floating(input.dtype());
  check_in_place(input, recorded, kName);
  check_not_expanded(input, kName);
  const Ref<MaskedFillBackward> node =
      recorded ? make_node<MaskedFillBackward>(input, value) : nullptr;
  const Tensor kept = node ? mask.clone() : readable_during_write(mask, input);
  call<Op::kTernary>(input.device(), TernaryFn::kWhere, kept, operand_of(value, input.dtype()),
                     input, input);
  input.bump_version();
  if (node) {
    if (asks_gradient(value)) node->show_as("MaskedFillBackward1");
    node->value = GradientShare(value);
    node->save(kept);
    detail::attach_written(input, node);
  }
  return input;
}

Tensor& masked_fill_(Tensor& input, const Tensor& mask, Scalar value) {
  check_defined(input, "masked_fill_", "the input");
  check_storable(value, input.dtype(), "masked_fill_");
  return masked_fill_(input, mask, as_number(value, input.dtype(), "masked_fill_"));
}

Tensor masked_fill(const Tensor& input, const Tensor& mask, Scalar value) {
  check_defined(input, "masked_fill", "the input");
  Tensor result = input.clone();
  return masked_fill_(result, mask, value);
}

Tensor masked_fill(const Tensor& input, const Tensor& mask, const Tensor& value) {
  check_defined(input, "masked_fill", "the input");
  Tensor result = input.clone();
  return masked_fill_(result, mask, value);
}

}  // namespace dl
