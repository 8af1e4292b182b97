// The values of functions of one element, on vectors of float.
#include "core/kernels/cpu/elementwise/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/elementwise/vector_values.cc"
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename F>
void unary_row(const RowArguments& run) {
  const Given<Lanes> p = given(run.parameters);
  for_each_vector<1>(run, [&](const float* const* in, float* out) HWY_ATTR {
    const Lanes::D d;
    hn::StoreU(value_of<F>(Lanes(hn::LoadU(d, in[0])), p).v, d, out);
  });
}

Row find_unary_row(UnaryFn fn) {
  constexpr Row kRows[] = {
#define DL_UNARY_FN(enumerator, name, Formula, ...) &unary_row<Formula>,
#include "core/elementwise/list.def"
  };
  return kRows[static_cast<std::size_t>(fn)];
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(find_unary_row);
Row vector_row_of(UnaryFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_unary_row)(fn);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
