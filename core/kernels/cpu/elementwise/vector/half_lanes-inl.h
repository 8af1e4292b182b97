// Loads and stores vectors of float whose elements are float or bfloat16 in memory. Included once
// for each of Highway's targets.
#if defined(DL_HALF_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DL_HALF_LANES_INL_H_
#undef DL_HALF_LANES_INL_H_
#else
#define DL_HALF_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "core/kernels/cpu/elementwise/vector/vector_numbers-inl.h"
#include "core/tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {

// A group is the elements in one vector register's width of memory: one vector of float, or two for
// bfloat16. The two are the even and the odd elements, which are cheaper to separate than the lower
// and upper half.
template <typename E>
inline constexpr std::size_t kVectorsOfGroup = std::is_same_v<E, float> ? 1 : 2;

HWY_INLINE void load_group(const float* from, Lanes* part) {
  part[0] = Lanes(hn::LoadU(Lanes::D(), from));
}
HWY_INLINE void store_group(const Lanes* part, float* to) {
  hn::StoreU(part[0].v, Lanes::D(), to);
}

using Words = hn::Vec<hn::RebindToUnsigned<Lanes::D>>;

// The bits of x, whose upper half is x as bfloat16, rounded to nearest even; not for NaN.
HWY_INLINE Words rounded_to_upper_half(Lanes x) {
  const hn::RebindToUnsigned<Lanes::D> words;
  const auto all = hn::BitCast(words, x.v);
#if HWY_TARGET == HWY_AVX3
  const auto is_odd = _mm512_test_epi32_mask(all.raw, _mm512_set1_epi32(0x10000));
  const auto up = _mm512_add_epi32(all.raw, _mm512_set1_epi32(0x7fff));
  return Words{_mm512_mask_add_epi32(up, is_odd, up, _mm512_set1_epi32(1))};
#else
  const auto odd = hn::And(hn::ShiftRight<16>(all), hn::Set(words, 1));
  return hn::Add(all, hn::Add(odd, hn::Set(words, 0x7fff)));
#endif
}

// `rounded`; if x is NaN, its bits as a quiet NaN.
HWY_INLINE Words with_nan(Lanes x, Words rounded) {
  const hn::RebindToUnsigned<Lanes::D> words;
  const auto quiet = hn::Or(hn::BitCast(words, x.v), hn::Set(words, 0x400000));
  return hn::IfThenElse(hn::RebindMask(words, (x != x).m), quiet, rounded);
}

HWY_INLINE bool has_nan(Lanes x, Lanes y) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_cmp_ps_mask(x.v.raw, y.v.raw, _CMP_UNORD_Q) != 0;
#else
  return !hn::AllTrue(Lanes::D(), hn::And((x == x).m, (y == y).m));
#endif
}

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void load_group(const BFloat16* from, Lanes* part) {
  const Lanes::D d;
  const hn::RebindToUnsigned<Lanes::D> words;
  const hn::Repartition<std::uint16_t, Lanes::D> halves;
  const auto both =
      hn::BitCast(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from)));
  const auto odd = hn::And(both, hn::Set(words, 0xffff0000U));
  part[0] = Lanes(hn::BitCast(d, hn::ShiftLeft<16>(both)));
  part[1] = Lanes(hn::BitCast(d, odd));
}

// Rounded to nearest even; NaN stays NaN. Highway's conversion truncates, and the CPU's
// (AVX512-BF16) flushes subnormal numbers to zero.
HWY_INLINE void store_group(const Lanes* part, BFloat16* to) {
  const hn::Repartition<std::uint16_t, Lanes::D> halves;
  auto even = rounded_to_upper_half(part[0]);
  auto odd = rounded_to_upper_half(part[1]);
  if (HWY_UNLIKELY(has_nan(part[0], part[1]))) {
    even = with_nan(part[0], even);
    odd = with_nan(part[1], odd);
  }
  const auto low = hn::BitCast(halves, hn::ShiftRight<16>(even));
  hn::StoreU(hn::OddEven(hn::BitCast(halves, odd), low), halves,
             reinterpret_cast<std::uint16_t*>(to));
}
#endif

}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
