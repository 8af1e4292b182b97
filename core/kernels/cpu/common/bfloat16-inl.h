// Vectors of float from and to memory that holds float or double, or bfloat16. Included once for
// each of Highway's targets.
#include <hwy/highway.h>

#include <cstdint>

#include "core/tensor/half.h"

#if defined(DLRUN_CORE_KERNELS_CPU_COMMON_BFLOAT16_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLRUN_CORE_KERNELS_CPU_COMMON_BFLOAT16_INL_
#undef DLRUN_CORE_KERNELS_CPU_COMMON_BFLOAT16_INL_
#else
#define DLRUN_CORE_KERNELS_CPU_COMMON_BFLOAT16_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::HWY_NAMESPACE {

template <typename D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_floats(D d, const hwy::HWY_NAMESPACE::TFromD<D>* from) {
  return hwy::HWY_NAMESPACE::LoadU(d, from);
}
template <typename D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_floats(D d, const BFloat16* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, D> halves;
  const hn::Rebind<std::uint32_t, D> words;
  const auto bits = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}

template <typename D>
HWY_INLINE void store_floats(hwy::HWY_NAMESPACE::Vec<D> x, D d, hwy::HWY_NAMESPACE::TFromD<D>* to) {
  hwy::HWY_NAMESPACE::StoreU(x, d, to);
}
// Rounded to nearest even; NaN stays NaN.
template <typename D>
HWY_INLINE void store_floats(hwy::HWY_NAMESPACE::Vec<D> x, D, BFloat16* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, D> halves;
  const hn::RebindToUnsigned<D> words;
  const hn::RebindToSigned<D> whole;
  const auto bits = hn::BitCast(words, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
  const auto quiet = hn::Or(high, hn::Set(words, 0x40));
  const auto word = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(x)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(whole, word)), halves,
             reinterpret_cast<std::uint16_t*>(to));
}

}  // namespace dl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
