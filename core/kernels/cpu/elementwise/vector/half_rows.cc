#include "core/kernels/cpu/elementwise/compute_type.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/elementwise/vector/half_rows.cc"
#endif
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/elementwise/vector/half_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

using D = Lanes::D;

void widen_bf16(const BFloat16* from, float* to, std::int64_t count) {
  const D d;
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* in = reinterpret_cast<const std::uint16_t*>(from);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto high = hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, in + i)));
    hn::StoreU(hn::BitCast(d, high), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i];
}

// Not Highway's conversion, which truncates.
void narrow_bf16(const float* from, BFloat16* to, std::int64_t count) {
  const D d;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Lanes x(hn::LoadU(d, from + i));
    auto word = rounded_to_upper_half(x);
    if (HWY_UNLIKELY(has_nan(x, x))) word = with_nan(x, word);
    const auto high = hn::BitCast(whole, hn::ShiftRight<16>(word));
    hn::StoreU(hn::DemoteTo(halves, high), halves, out + i);
  }
  for (; i < count; ++i) to[i] = BFloat16(from[i]);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
// These processors convert float16 themselves, rounding to nearest even.
using ShortFloats = hn::Rebind<hwy::float16_t, D>;

void widen_f16(const Half* from, float* to, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* in = reinterpret_cast<const hwy::float16_t*>(from);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(ShortFloats(), in + i)), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i];
}

void narrow_f16(const float* from, Half* to, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* out = reinterpret_cast<hwy::float16_t*>(to);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::DemoteTo(ShortFloats(), hn::LoadU(d, from + i)), ShortFloats(), out + i);
  }
  for (; i < count; ++i) to[i] = Half(from[i]);
}
#else
void widen_f16(const Half* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

void narrow_f16(const float* from, Half* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Half(from[i]);
}
#endif

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);

void widen(const BFloat16* from, float* to, std::int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(widen_bf16)(from, to, count);
}
void widen(const Half* from, float* to, std::int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(widen_f16)(from, to, count);
}
void narrow(const float* from, BFloat16* to, std::int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(narrow_bf16)(from, to, count);
}
void narrow(const float* from, Half* to, std::int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(narrow_f16)(from, to, count);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
