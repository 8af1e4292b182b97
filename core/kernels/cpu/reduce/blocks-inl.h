// Reduces a block of dense float32 elements in vectors. Included once for each of Highway's
// targets.
#if defined(DL_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DL_BLOCKS_INL_H_
#undef DL_BLOCKS_INL_H_
#else
#define DL_BLOCKS_INL_H_
#endif

#include <cstring>

#include "core/kernels/cpu/elementwise/vector/lanes-inl.h"
#include "core/kernels/formulas/numbers.h"

HWY_BEFORE_NAMESPACE();
#define DL_INLINE HWY_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::cpu::HWY_NAMESPACE
#include "core/kernels/formulas/reductions-inl.h"

namespace dl::kernels::cpu::HWY_NAMESPACE {

constexpr std::int64_t kAcrossBlock = 1024;  // elements merged in float32

HWY_INLINE Lanes load(const float* from) {
  return Lanes(hn::LoadU(Lanes::D(), from));
}

// The first `count` lanes, and zeros.
HWY_INLINE Lanes load_first(const float* from, std::size_t count) {
  const Lanes::D d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return Lanes(hn::MaskedLoad(hn::FirstN(d, count), d, from));  // does not read beyond them
#else
  HWY_ALIGN float pad[hn::MaxLanes(d)] = {};
  std::memcpy(pad, from, count * sizeof(float));
  return Lanes(hn::Load(d, pad));
#endif
}
HWY_INLINE void store_first(Lanes x, float* to, std::size_t count) {
  const Lanes::D d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(x.v, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN float pad[hn::MaxLanes(d)];
  hn::Store(x.v, d, pad);
  std::memcpy(to, pad, count * sizeof(float));
#endif
}

// The merge of a vector's lanes.
template <typename F>
HWY_INLINE float merge_lanes(Lanes v) {
#if HWY_TARGET != HWY_SCALAR
  const Lanes::D d;
  if constexpr (hn::MaxLanes(d) > 4) v = F::merge(v, Lanes(hn::ReverseBlocks(d, v.v)));
  if constexpr (hn::MaxLanes(d) > 8) v = F::merge(v, Lanes(hn::SwapAdjacentBlocks(v.v)));
  v = F::merge(v, Lanes(hn::Shuffle1032(v.v)));
  v = F::merge(v, Lanes(hn::Shuffle2301(v.v)));
#endif
  return hn::GetLane(v.v);
}

template <typename F>
HWY_INLINE float merge_block(const float* in, std::int64_t count, const TermArgs<Lanes>& args) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto term = [&](const float* from) HWY_ATTR { return F::term(load(from), args); };
  const Lanes none = F::template identity<Lanes>();
  Lanes a = none;
  std::int64_t i = 0;
  if (count >= 4 * lanes) {
    Lanes b = none;
    Lanes c = none;
    Lanes e = none;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      a = F::merge(a, term(in + i));
      b = F::merge(b, term(in + i + lanes));
      c = F::merge(c, term(in + i + 2 * lanes));
      e = F::merge(e, term(in + i + 3 * lanes));
    }
    a = F::merge(F::merge(a, b), F::merge(c, e));
  }
  for (; i + lanes <= count; i += lanes) a = F::merge(a, term(in + i));
  if (i < count) {
    const auto rest = static_cast<std::size_t>(count - i);
    const Lanes last = F::term(load_first(in + i, rest), args);
    a = F::merge(a, Lanes(hn::IfThenElse(hn::FirstN(d, rest), last.v, none.v)));
  }
  return merge_lanes<F>(a);
}

}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
