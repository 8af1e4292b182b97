#include "core/kernels/cpu/common/dense_runs.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/common/dense_runs.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Loads as many bools as the vector has lanes, as unsigned integers.
template <typename D>
HWY_INLINE hn::Vec<D> load_bools(D d, const std::uint8_t* from) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    return hn::LoadU(d, from);
  } else if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const hn::Rebind<std::uint32_t, D> words;
    return hn::PromoteTo(d, load_bools(words, from));
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint8_t, D>(), from));
  }
}

template <typename Bits>
void choose_bits(const ChooseRun& run) {
  const hn::ScalableTag<Bits> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* const condition = reinterpret_cast<const std::uint8_t*>(run.condition);
  const auto* const yes = static_cast<const Bits*>(run.yes);
  const auto* const no = static_cast<const Bits*>(run.no);
  auto* const out = static_cast<Bits*>(run.out);
  const auto same_yes = hn::Set(d, *yes);
  const auto same_no = hn::Set(d, *no);
  std::int64_t i = 0;
  for (; i + lanes <= run.count; i += lanes) {
    const auto is_no = hn::Eq(load_bools(d, condition + i), hn::Zero(d));
    const auto a = run.yes_step == 0 ? same_yes : hn::LoadU(d, yes + i);
    const auto b = run.no_step == 0 ? same_no : hn::LoadU(d, no + i);
    hn::StoreU(hn::IfThenElse(is_no, b, a), d, out + i);
  }
  for (; i < run.count; ++i) {
    out[i] = condition[i] != 0 ? yes[i * run.yes_step] : no[i * run.no_step];
  }
}

void choose_any(std::size_t width, const ChooseRun& run) {
  switch (width) {
    case 1:
      return choose_bits<std::uint8_t>(run);
    case 2:
      return choose_bits<std::uint16_t>(run);
    case 4:
      return choose_bits<std::uint32_t>(run);
    default:
      return choose_bits<std::uint64_t>(run);
  }
}

// Uses no comparisons, which some instruction sets lack for 64-bit integers: a negative difference
// has the highest bit set.
bool find_stray(const std::int64_t* index, std::int64_t count, std::int64_t least,
                std::int64_t size) {
  const auto low = static_cast<std::uint64_t>(least);
  const std::uint64_t last = static_cast<std::uint64_t>(size) - low - 1;
  const auto* const in = reinterpret_cast<const std::uint64_t*>(index);
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto check = [&](std::int64_t i) HWY_ATTR {
    const auto place = hn::Sub(hn::LoadU(d, in + i), hn::Set(d, low));
    return hn::Or(place, hn::Sub(hn::Set(d, last), place));
  };
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Or(a, check(i));
    b = hn::Or(b, check(i + lanes));
  }
  std::uint64_t bits = 0;
  for (; i < count; ++i) bits |= (in[i] - low) | (last - (in[i] - low));
  return ((hn::GetLane(hn::SumOfLanes(d, hn::ShiftRight<63>(hn::Or(a, b)))) | (bits >> 63)) != 0);
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(choose_any);
void choose(std::size_t width, const ChooseRun& run) noexcept {
  HWY_DYNAMIC_DISPATCH(choose_any)(width, run);
}

HWY_EXPORT(find_stray);
bool has_stray(const std::int64_t* index, std::int64_t count, std::int64_t least,
               std::int64_t size) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_stray)(index, count, least, size);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
