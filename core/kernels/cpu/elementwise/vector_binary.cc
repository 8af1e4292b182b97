// Functions of two and of three elements on vectors of float.
#include "core/kernels/cpu/elementwise/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/elementwise/vector_binary.cc"
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename F>
void binary_row(const RowArguments& run) {
  const Given<Lanes> p = given(run.parameters);
  for_each_vector<2>(run, [&](const float* const* in, float* out) HWY_ATTR {
    const Lanes::D d;
    hn::StoreU(value_of<F>(Lanes(hn::LoadU(d, in[0])), Lanes(hn::LoadU(d, in[1])), p).v, d, out);
  });
}

template <typename F>
void ternary_row(const RowArguments& run) {
  const Given<Lanes> p = given(run.parameters);
  for_each_vector<3>(run, [&](const float* const* in, float* out) HWY_ATTR {
    const Lanes::D d;
    hn::StoreU(value_of<F>(Lanes(hn::LoadU(d, in[0])), Lanes(hn::LoadU(d, in[1])),
                           Lanes(hn::LoadU(d, in[2])), p)
                   .v,
               d, out);
  });
}

template <BinaryFn fn, typename F>
constexpr Row row_for() {
  if constexpr (facts(fn).gives == Gives::kBool || !computes_floats(facts(fn).takes)) {
    return nullptr;
  } else {
    return &binary_row<F>;
  }
}

Row find_binary_row(BinaryFn fn) {
  constexpr Row kRows[] = {
#define DL_BINARY(enumerator, name, Formula, ...) row_for<BinaryFn::enumerator, Formula>(),
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

HWY_EXPORT(find_binary_row);
Row vector_row_of(BinaryFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_binary_row)(fn);
}

HWY_EXPORT(find_ternary_row);
Row vector_row_of(TernaryFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_ternary_row)(fn);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
