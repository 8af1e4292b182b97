#include "core/kernels/cpu/elementwise/half_rows.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/elementwise/half_rows.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using Bits = hn::RebindToUnsigned<D>;
using ShortBits = hn::Rebind<std::uint16_t, D>;

void widen_bf16(const BFloat16* from, float* to, std::int64_t count) {
  const D d;
  const Bits bits;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* in = reinterpret_cast<const std::uint16_t*>(from);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto high = hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(ShortBits(), in + i)));
    hn::StoreU(hn::BitCast(d, high), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i];
}

// Highway's own conversion cuts the lower bits.
void narrow_bf16(const float* from, BFloat16* to, std::int64_t count) {
  const D d;
  const Bits bits;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, from + i);
    const auto all = hn::BitCast(bits, x);
    const auto high = hn::ShiftRight<16>(all);
    const auto odd = hn::And(high, hn::Set(bits, 1));
    const auto even = hn::ShiftRight<16>(hn::Add(all, hn::Add(odd, hn::Set(bits, 0x7fff))));
    const auto nan = hn::Or(high, hn::Set(bits, 0x40));
    const auto is_nan = hn::RebindMask(bits, hn::IsNaN(x));
    const auto result = hn::IfThenElse(is_nan, nan, even);
    const hn::RebindToSigned<D> whole;
    hn::StoreU(hn::DemoteTo(ShortBits(), hn::BitCast(whole, result)), ShortBits(), out + i);
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
