// The gradients of element-wise rows as recorded operations, for gradients of gradients.
#include "core/kernels/formulas/numbers.h"
#include "core/ops/dual.h"

namespace dl::duals {
using kernels::Whole;
}  // namespace dl::duals

#define DL_INLINE inline
#define DL_FORMULAS_NAMESPACE dl::duals
#include "core/kernels/formulas/formulas-inl.h"

namespace dl {
namespace {

using duals::Dual;
using duals::Part;

// The derivative, by what the row saves, of the gradient for an output gradient of 1; a constant 0
// if the formula's slope is constant piece by piece.
Part slope_of_gradient(UnaryFn fn, const Tensor& seen, const Parameters& given) {
  const Dual one(1);
  const Dual x{duals::part(seen), duals::part(1)};
  const duals::Given<Dual> p{Dual(given.a), Dual(given.b)};
  switch (fn) {
#define DL_UNARY_FN(enumerator, name, Formula, ...) \
  case UnaryFn::enumerator:                         \
    return duals::gradient_of<duals::Formula>(one, x, p).slope;
#include "core/elementwise/list.def"
  }
  return {};
}

// Inputs and saved: the gradient of the output, which it is linear in, and what the row saves.
struct UnaryGradient final : ComposedNode {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& seen = saved(1);
    if (context.needs(0)) context.give(0, unary_gradient(fn, g, seen, parameters));
    if (!context.needs(1)) return;
    // The many roundings are those of float32 for float16 and bfloat16.
    const bool is_short = size_of(seen.dtype()) < size_of(DType::kF32);
    const Part slope = slope_of_gradient(fn, is_short ? seen.to(DType::kF32) : seen, parameters);
    if (slope.is_zero()) return;
    const Tensor by_seen = slope.is_constant() ? mul(mul(g, saved(0)), slope.constant)
                                               : mul(mul(g, saved(0)), slope.tensor);
    context.give(1, by_seen.to(seen.dtype()));
  }
  UnaryFn fn{};
  Parameters parameters;
};

}  // namespace

Tensor unary_gradient(UnaryFn fn, const Tensor& gradient, const Tensor& seen,
                      const Parameters& parameters) {
  const Tensor result = empty_like(seen);
  call<Op::kUnaryBackward>(gradient.device(), fn, gradient, seen, parameters, result);
  // A row that saves nothing does not read `seen`.
  const bool reads = facts(fn).saves != Saves::kNothing;
  if (auto* node = record<UnaryGradient>(result, gradient, reads ? seen : Tensor())) {
    node->fn = fn;
    node->parameters = parameters;
    node->save(reads && needs_grad(seen) ? gradient : Tensor());
    node->save(seen);
  }
  return result;
}

}  // namespace dl
