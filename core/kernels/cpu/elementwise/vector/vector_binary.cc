// Functions of two and of three elements on vectors of float.
#include "core/kernels/cpu/elementwise/rows.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/elementwise/vector/vector_binary.cc"
#endif
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/elementwise/vector/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// False for a formula of scalars only.
template <typename F>
constexpr bool takes_vectors() {
  return requires(Lanes x) { F::value(x, x); } ||
         requires(Lanes x, Given<Lanes> p) { F::value(x, x, p); };
}

template <typename F, typename E>
void binary_row(const RowArguments& run) {
  if constexpr (takes_vectors<F>()) {
    const Given<Lanes> p = given(run.parameters);
    for_each_vector<E, 2>(run, [&](const Lanes* x) HWY_ATTR { return value_of<F>(x[0], x[1], p); });
  } else {
    const auto value = [](float a, float b) HWY_ATTR { return F::value(a, b); };
    for_each_vector<E, 2>(run,
                          [&](const Lanes* x) HWY_ATTR { return lane_by_lane(value, x[0], x[1]); });
  }
}

template <typename F>
void ternary_row(const RowArguments& run) {
  const Given<Lanes> p = given(run.parameters);
  for_each_vector<float, 3>(
      run, [&](const Lanes* x) HWY_ATTR { return value_of<F>(x[0], x[1], x[2], p); });
}

template <BinaryFn fn, typename F>
constexpr VectorRows rows_for() {
  if constexpr (facts(fn).gives == Gives::kBool || !computes_floats(facts(fn).takes)) {
    return {};
  } else if constexpr (has_bf16_row(facts(fn).cuda)) {
    return {&binary_row<F, float>, &binary_row<F, BFloat16>};
  } else {
    return {&binary_row<F, float>};
  }
}

VectorRows find_binary_rows(BinaryFn fn) {
  constexpr VectorRows kRows[] = {
#define DL_BINARY(enumerator, name, Formula, ...) rows_for<BinaryFn::enumerator, Formula>(),
#include "core/elementwise/list.def"
  };
  return kRows[static_cast<std::size_t>(fn)];
}

Row find_ternary_row(TernaryFn fn) {
  constexpr Row kRows[] = {
#define DL_TERNARY(enumerator, name, Formula, ...) &ternary_row<Formula>,
#include "core/elementwise/list.def"
  };
  return kRows[static_cast<std::size_t>(fn)];
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(find_binary_rows);
VectorRows vector_rows_of(BinaryFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_binary_rows)(fn);
}

HWY_EXPORT(find_ternary_row);
Row vector_row_of(TernaryFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_ternary_row)(fn);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
