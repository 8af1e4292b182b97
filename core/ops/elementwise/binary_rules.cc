// The gradients of functions of two elements, as functions of tensors; and the op functions of the
// rows DL_BINARY_OF_TENSORS and DL_BINARY_OF_NUMBERS in core/elementwise/list.def.
#include <array>
#include <utility>

#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"

namespace dl {
namespace {

// The gradient of an operand from the gradient g of the result; operands have the result's dtype.
using GradientOf = Tensor (*)(const Tensor& g, const Tensor& a, const Tensor& b);
struct BinaryRule {
  BinaryFn fn;
  const char* grad_fn;  // PyTorch's name of the node
  // PyTorch's name if b is a number; null: grad_fn.
  const char* grad_fn_of_number_b = nullptr;
  // PyTorch's name if a is a number; null: grad_fn.
  const char* grad_fn_of_number_a = nullptr;
  GradientOf to_a;
  GradientOf to_b;
  // True if to_a or to_b reads an operand.
  bool to_a_reads = true;
  bool to_b_reads = true;
  // True: they are called with (g, a, result) and (g, b, result); each reads only its own operand.
  bool from_result = false;
};

// x / (a^2 + b^2). At the origin the angle has no derivative; PyTorch gives 0.
Tensor over_square_of_distance(const Tensor& x, const Tensor& a, const Tensor& b) {
  const Tensor distance = hypot(a, b);
  return where(eq(distance, 0.0), 0.0, div(div(x, distance), distance));
}

constexpr BinaryRule kRules[] = {
    {.fn = BinaryFn::kPower,
     .grad_fn = "PowBackward1",
     .grad_fn_of_number_a = "PowBackward2",
     .to_a =
         [](const Tensor& g, const Tensor& a, const Tensor& b) {
           return where(eq(b, 0.0), 0.0, mul(g, mul(b, pow(a, sub(b, 1.0)))));
         },
     .to_b =
         [](const Tensor& g, const Tensor& a, const Tensor& b) {
           const Tensor is_flat = logical_and(eq(a, 0.0), ge(b, 0.0));
           return where(is_flat, 0.0, mul(g, mul(pow(a, b), log(a))));
         }},
    {.fn = BinaryFn::kAtan2,
     .grad_fn = "Atan2Backward0",
     .to_a = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return mul(g, over_square_of_distance(b, a, b)); },
     .to_b = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return neg(mul(g, over_square_of_distance(a, a, b))); }},
    {.fn = BinaryFn::kHypot,
     .grad_fn = "HypotBackward0",
     .to_a = [](const Tensor& g, const Tensor& a,
                const Tensor& out) { return mul(g, div(a, out)); },
     .to_b = [](const Tensor& g, const Tensor& b,
                const Tensor& out) { return mul(g, div(b, out)); },
     .from_result = true},
    {.fn = BinaryFn::kLogaddexp,
     .grad_fn = "LogaddexpBackward0",
     .to_a = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return div(g, 1.0 + exp(sub(b, a))); },
     .to_b = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return div(g, 1.0 + exp(sub(a, b))); }},
    {.fn = BinaryFn::kLogaddexp2,
     .grad_fn = "Logaddexp2Backward0",
     .to_a = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return div(g, 1.0 + exp2(sub(b, a))); },
     .to_b = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return div(g, 1.0 + exp2(sub(a, b))); }},
    {.fn = BinaryFn::kXlogy,
     .grad_fn = "XlogyBackward0",
     .grad_fn_of_number_b = "XlogyBackward2",
     .grad_fn_of_number_a = "XlogyBackward1",
     .to_a =
         [](const Tensor& g, const Tensor& a, const Tensor& b) {
           const Tensor is_flat = logical_and(eq(a, 0.0), le(b, 0.0));
           return where(is_flat, 0.0, xlogy(g, b));
         },
     .to_b = [](const Tensor& g, const Tensor& a, const Tensor& b) { return div(mul(g, a), b); }},
    // -1 or 1, and 0 if a is 0.
    {.fn = BinaryFn::kCopysign,
     .grad_fn = "CopysignBackward0",
     .grad_fn_of_number_b = "CopysignBackward1",
     .to_a = [](const Tensor& g, const Tensor& a,
                const Tensor& out) { return mul(g, where(eq(a, 0.0), 0.0, div(out, a))); },
     .to_b = [](const Tensor& g, const Tensor&, const Tensor&) { return zeros_like(g); },
     .to_b_reads = false,
     .from_result = true},
    {.fn = BinaryFn::kFmod,
     .grad_fn = "FmodBackward1",
     .grad_fn_of_number_b = "FmodBackward0",
     .to_a = [](const Tensor& g, const Tensor&, const Tensor&) { return g; },
     .to_b = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return neg(mul(g, trunc(div(a, b)))); },
     .to_a_reads = false},
    {.fn = BinaryFn::kRemainder,
     .grad_fn = "RemainderBackward1",
     .grad_fn_of_number_b = "RemainderBackward0",
     .to_a = [](const Tensor& g, const Tensor&, const Tensor&) { return g; },
     .to_b = [](const Tensor& g, const Tensor& a,
                const Tensor& b) { return neg(mul(g, floor_divide(a, b))); },
     .to_a_reads = false},
};

// By function; null if it has no gradient, or none in kRules.
constexpr auto kRuleOf = [] {
  std::array<const BinaryRule*, std::size(kernels::kBinaryFacts)> found{};
  for (const BinaryRule& rule : kRules) found[static_cast<std::size_t>(rule.fn)] = &rule;
  return found;
}();
constexpr const BinaryRule* rule_of(BinaryFn fn) noexcept {
  return kRuleOf[static_cast<std::size_t>(fn)];
}

#define DL_BINARY_OF_TENSORS(enumerator, name, ...)                                        \
  static_assert(facts(BinaryFn::enumerator).gives == Gives::kSame);                        \
  static_assert((facts(BinaryFn::enumerator).gradient == kernels::Gradient::kGradcheck) == \
                    (rule_of(BinaryFn::enumerator) != nullptr),                            \
                #name ": the row says kGradcheck, or kRules has a gradient, but not both");
#define DL_BINARY_OF_NUMBERS DL_BINARY_OF_TENSORS
#include "core/elementwise/list.def"

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

// `out` with its node's name in PyTorch, if that is another one beside a number.
Tensor named(Tensor out, const Tensor& operand, BinaryFn fn, const char* BinaryRule::* grad_fn) {
  const BinaryRule* rule = rule_of(fn);
  const char* name = rule == nullptr ? nullptr : rule->*grad_fn;
  if (name == nullptr) return out;
  return detail::finish_composed(std::move(out), operand, name);
}

}  // namespace

Tensor number_beside(const Tensor& operand, Scalar number, BinaryFn fn) {
  const std::string_view op = facts(fn).name;
  return as_number(number, computed_in(fn, dtype_with(operand, number, op)), op);
}

Tensor run_recorded(BinaryFn fn, const Tensor& a, const Tensor& b, const BinaryOperands& operands) {
  const Tensor out = run_binary(fn, operands);
  const BinaryRule* rule = rule_of(fn);
  if (rule == nullptr) return out;
  if (auto* node = record_binary<RuleBackward>(out, a, b)) {
    node->rule = rule;
    node->set_grad_fn_name(rule->grad_fn);
    const bool to_a = rule->to_a_reads && needs_grad(a);
    const bool to_b = rule->to_b_reads && needs_grad(b);
    const bool both = !rule->from_result;
    node->save(to_a || (both && to_b) ? operands.a : Tensor());
    node->save(to_b || (both && to_a) ? operands.b : Tensor());
    if (rule->from_result) node->save(to_a || to_b ? out : Tensor());
  }
  return out;
}

Tensor run_recorded(BinaryFn fn, const Tensor& a, const Tensor& b, DType common) {
  return run_recorded(fn, a, b, prepare_operands(a, b, computed_in(fn, common), facts(fn).name));
}

Tensor run_with_number_b(BinaryFn fn, const Tensor& a, Scalar b, const Tensor& number) {
  return named(run_recorded(fn, a, number, dtype_with(a, b, facts(fn).name)), a, fn,
               &BinaryRule::grad_fn_of_number_b);
}

Tensor run_with_number_a(BinaryFn fn, const Tensor& b, const BinaryOperands& operands) {
  return named(run_recorded(fn, operands.a, b, operands), b, fn, &BinaryRule::grad_fn_of_number_a);
}

Tensor binary(BinaryFn fn, const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast_of(fn, a)) return binary(fn, cast(a), cast(b));
  return run_recorded(fn, a, b, common_dtype(a, b, facts(fn).name));
}

Tensor binary(BinaryFn fn, const Tensor& a, Scalar b) {
  if (const auto cast = autocast_of(fn, a)) return binary(fn, cast(a), b);
  return run_with_number_b(fn, a, b, number_beside(a, b, fn));
}

Tensor binary(BinaryFn fn, Scalar a, const Tensor& b) {
  if (const auto cast = autocast_of(fn, b)) return binary(fn, a, cast(b));
  const std::string_view op = facts(fn).name;
  const DType dtype = computed_in(fn, dtype_with(b, a, op));
  return run_with_number_a(fn, b, prepare_operands(number_beside(b, a, fn), b, dtype, op));
}

}  // namespace dl
