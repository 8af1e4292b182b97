#include "core/ops/elementwise/numeric.h"

#include <limits>

#include "core/ops/dispatch/autocast.h"
#include "core/ops/dispatch/takes.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

// The gradient of an operand from the gradient g of the result; operands have the result's dtype.
using GradientOf = Tensor (*)(const Tensor& g, const Tensor& a, const Tensor& b);
struct BinaryRule {
  BinaryFn fn;
  const char* grad_fn;  // PyTorch's name of the node
  GradientOf to_a;
  GradientOf to_b;
  // True if to_a or to_b reads an operand.
  bool to_a_reads = true;
  bool to_b_reads = true;
  // True: they are called with (g, a, result) and (g, b, result); each reads only its own operand.
  bool from_result = false;
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

// x / (a^2 + b^2). At the origin the angle has no derivative; PyTorch gives 0.
Tensor over_square_of_distance(const Tensor& x, const Tensor& a, const Tensor& b) {
  const Tensor distance = hypot(a, b);
  return where(eq(distance, 0.0), 0.0, div(div(x, distance), distance));
}

constexpr BinaryRule kAtan2Rule{BinaryFn::kAtan2, "Atan2Backward0",
                                [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                  return mul(g, over_square_of_distance(b, a, b));
                                },
                                [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                  return neg(mul(g, over_square_of_distance(a, a, b)));
                                }};

constexpr BinaryRule kHypotRule{
    BinaryFn::kHypot,
    "HypotBackward0",
    [](const Tensor& g, const Tensor& a, const Tensor& out) { return mul(g, div(a, out)); },
    [](const Tensor& g, const Tensor& b, const Tensor& out) { return mul(g, div(b, out)); },
    true,
    true,
    true};

constexpr BinaryRule kLogaddexpRule{
    BinaryFn::kLogaddexp, "LogaddexpBackward0",
    [](const Tensor& g, const Tensor& a, const Tensor& b) { return div(g, 1.0 + exp(sub(b, a))); },
    [](const Tensor& g, const Tensor& a, const Tensor& b) { return div(g, 1.0 + exp(sub(a, b))); }};

constexpr BinaryRule kLogaddexp2Rule{
    BinaryFn::kLogaddexp2, "Logaddexp2Backward0",
    [](const Tensor& g, const Tensor& a, const Tensor& b) { return div(g, 1.0 + exp2(sub(b, a))); },
    [](const Tensor& g, const Tensor& a, const Tensor& b) {
      return div(g, 1.0 + exp2(sub(a, b)));
    }};

// -1 or 1, and 0 if a is 0.
constexpr BinaryRule kCopysignRule{
    BinaryFn::kCopysign,
    "CopysignBackward0",
    [](const Tensor& g, const Tensor& a, const Tensor& out) {
      return mul(g, where(eq(a, 0.0), 0.0, div(out, a)));
    },
    [](const Tensor& g, const Tensor&, const Tensor&) { return zeros_like(g); },
    true,
    false,
    true};

constexpr BinaryRule kFmodRule{
    BinaryFn::kFmod, "FmodBackward1",
    [](const Tensor& g, const Tensor&, const Tensor&) { return g; },
    [](const Tensor& g, const Tensor& a, const Tensor& b) { return neg(mul(g, trunc(div(a, b)))); },
    false};

constexpr BinaryRule kRemainderRule{BinaryFn::kRemainder, "RemainderBackward1",
                                    [](const Tensor& g, const Tensor&, const Tensor&) { return g; },
                                    [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                      return neg(mul(g, floor_divide(a, b)));
                                    },
                                    false};

// Saved: the operands, if a gradient reads them, and the result of a rule that reads it.
struct RuleBackward final : BinaryNode {
  std::string_view name() const noexcept override { return facts(rule->fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const bool from_out = rule->from_result;
    if (context.needs(0)) {
      context.give(0, inputs[0].reduce_grad(rule->to_a(g, saved(0), saved(from_out ? 2 : 1))));
    }
    if (context.needs(1)) {
      const Tensor& first = saved(from_out ? 1 : 0);
      context.give(1, inputs[1].reduce_grad(rule->to_b(g, first, saved(from_out ? 2 : 1))));
    }
  }
  const BinaryRule* rule = nullptr;
};

Tensor by_rule(const BinaryRule& rule, const Tensor& a, const Tensor& b,
               const BinaryOperands& operands) {
  const Tensor out = run_binary(rule.fn, operands);
  if (auto* node = record_binary<RuleBackward>(out, a, b)) {
    node->rule = &rule;
    node->set_grad_fn_name(rule.grad_fn);
    const bool to_a = rule.to_a_reads && needs_grad(a);
    const bool to_b = rule.to_b_reads && needs_grad(b);
    const bool both = !rule.from_result;
    node->save(to_a || (both && to_b) ? operands.a : Tensor());
    node->save(to_b || (both && to_a) ? operands.b : Tensor());
    if (rule.from_result) node->save(to_a || to_b ? out : Tensor());
  }
  return out;
}

Tensor by_rule(const BinaryRule& rule, const Tensor& a, const Tensor& b, DType common) {
  const std::string_view op = facts(rule.fn).name;
  return by_rule(rule, a, b, prepare_operands(a, b, computed_in(rule.fn, common), op));
}

// The number in the result's dtype, so that checks for 0 see the kernel's value.
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
  const DType dtype = computed_in(kPowerRule.fn, dtype_with(exponent, base, "pow"));
  BinaryOperands operands = prepare_operands(number, exponent, dtype, "pow");
  Tensor& out = operands.out;
  // PyTorch's result is row-major as well.
  if (!out.is_contiguous())
    out = empty(out.sizes(), {.dtype = out.dtype(), .device = out.device()});
  return detail::finish_composed(by_rule(kPowerRule, number, exponent, operands), exponent,
                                 "PowBackward2");
}

Tensor atan2(const Tensor& a, const Tensor& b) {
  return by_rule(kAtan2Rule, a, b, common_dtype(a, b, "atan2"));
}

Tensor hypot(const Tensor& a, const Tensor& b) {
  return by_rule(kHypotRule, a, b, common_dtype(a, b, "hypot"));
}
Tensor logaddexp(const Tensor& a, const Tensor& b) {
  return by_rule(kLogaddexpRule, a, b, common_dtype(a, b, "logaddexp"));
}
Tensor logaddexp2(const Tensor& a, const Tensor& b) {
  return by_rule(kLogaddexp2Rule, a, b, common_dtype(a, b, "logaddexp2"));
}

Tensor copysign(const Tensor& a, const Tensor& b) {
  return by_rule(kCopysignRule, a, b, common_dtype(a, b, "copysign"));
}
Tensor copysign(const Tensor& a, Scalar b) {
  const Tensor number = number_like(a, b, BinaryFn::kCopysign);
  return detail::finish_composed(by_rule(kCopysignRule, a, number, dtype_with(a, b, "copysign")), a,
                                 "CopysignBackward1");
}

Tensor heaviside(const Tensor& a, const Tensor& b) {
  check_defined(a, "heaviside", "the first operand");
  check_defined(b, "heaviside", "the second operand");
  DL_CHECK(a.dtype() == b.dtype(), kDType, "heaviside: one operand is {}, the other {}",
           name_of(a.dtype()), name_of(b.dtype()));
  return run_binary_as(BinaryFn::kHeaviside, a, b, a.dtype());
}

Tensor fmod(const Tensor& a, const Tensor& b) {
  const DType dtype = common_dtype(a, b, "fmod");
  check_divisor(b, dtype, "fmod");
  return by_rule(kFmodRule, a, b, dtype);
}
Tensor fmod(const Tensor& a, Scalar b) {
  const Tensor number = number_like(a, b, BinaryFn::kFmod);
  check_divisor(number, number.dtype(), "fmod");
  return detail::finish_composed(by_rule(kFmodRule, a, number, dtype_with(a, b, "fmod")), a,
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
  return detail::finish_composed(by_rule(kRemainderRule, a, number, dtype_with(a, b, "remainder")),
                                 a, "RemainderBackward0");
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

}  // namespace dl
