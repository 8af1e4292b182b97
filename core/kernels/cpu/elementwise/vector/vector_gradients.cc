// The gradients of functions of one element, on vectors.
#include "core/kernels/cpu/elementwise/rows.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/elementwise/vector/vector_gradients.cc"
#endif
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/elementwise/vector/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename F, typename E>
void gradient_row(const RowArguments& run) {
  const Given<Lanes> p = given(run.parameters);
  for_each_vector<E, 2>(run,
                        [&](const Lanes* x) HWY_ATTR { return gradient_of<F>(x[0], x[1], p); });
}

template <UnaryFn fn, typename F>
constexpr VectorRows gradient_rows_for() {
  if constexpr (has_bf16_row(facts(fn).cuda)) {
    return {&gradient_row<F, float>, &gradient_row<F, BFloat16>};
  }
  return {&gradient_row<F, float>};
}

VectorRows find_gradient_rows(UnaryFn fn) {
  constexpr VectorRows kRows[] = {
#define DL_UNARY_FN(enumerator, name, Formula, ...) \
  gradient_rows_for<UnaryFn::enumerator, Formula>(),
#include "core/elementwise/list.def"
  };
  return kRows[static_cast<std::size_t>(fn)];
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(find_gradient_rows);
VectorRows vector_gradient_rows_of(UnaryFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_gradient_rows)(fn);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
