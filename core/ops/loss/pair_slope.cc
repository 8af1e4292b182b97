// Gradients of gradients of the element-wise losses, from the formulas of their slopes.
#include "core/ops/dual.h"
#include "core/ops/layout.h"
#include "core/ops/loss/loss_reduction.h"

#define DL_INLINE inline
#define DL_FORMULAS_NAMESPACE dl::duals
#include "core/kernels/formulas/loss_formulas-inl.h"

namespace dl {
namespace {

using duals::Dual;

template <typename Formula>
Dual slope_of(const duals::LossElement<Dual>& at, bool of_target) {
  return of_target ? Formula::target_slope(at) : Formula::slope(at);
}

Dual slope_of(PairLoss fn, const duals::LossElement<Dual>& at, bool of_target) {
  switch (fn) {
#define DL_PAIR_LOSS(enumerator, name, Formula, ...) \
  case PairLoss::enumerator:                         \
    return slope_of<duals::Formula>(at, of_target);
#include "core/elementwise/losses.def"
  }
  return Dual(0);
}

// Inputs: x, t. Saved: both, and pos_weight.
struct PairSlopeBackward final : ComposedNode {
  std::string_view name() const noexcept override { return facts(fn).name; }
  void backward(BackwardContext& context) override {
    for (const std::size_t i : {0, 1}) {
      if (!context.needs(i)) continue;
      const Dual x{duals::part(saved(0)), duals::part(i == 0 ? 1 : 0)};
      const Dual t{duals::part(saved(1)), duals::part(i == 1 ? 1 : 0)};
      const Dual q = saved(2).defined() ? Dual{duals::part(saved(2)), {}} : Dual(1);
      const duals::Part by = slope_of(fn, {x, t, q, Dual(a)}, of_target).slope;
      if (by.is_zero()) continue;
      const Tensor& g = context.grad_output();
      context.give(i, by.is_constant() ? mul(g, by.constant) : mul(g, by.tensor));
    }
  }
  PairLoss fn{};
  bool of_target = false;
  double a = 0;
};

}  // namespace

Tensor pair_slope(PairLoss fn, bool of_target, const Tensor& x, const Tensor& t,
                  const Tensor& pos_weight, double a) {
  const Tensor input = laid_out(x);
  const Tensor target = laid_out(t);
  const Tensor result = empty_like(input);
  const PairLossArgs plain{.a = a, .reduced = false, .divisor = 1};
  call<Op::kPairLossBackward>(x.device(), fn, ones_like(input.detach()), input, target, Tensor(),
                              pos_weight, plain, of_target, result);
  if (auto* node = record<PairSlopeBackward>(result, x, t)) {
    node->fn = fn;
    node->of_target = of_target;
    node->a = a;
    node->save_input(0, input);
    node->save_input(1, target);
    node->save_constant(pos_weight);
  }
  return result;
}

}  // namespace dl
