// The rows of reductions for float32. A block's terms are merged in four vectors, and blocks in
// double, so that a sum of many terms keeps its last digits.
#include <cstring>

#include "core/kernels/cpu/reduce/rows.h"
#include "core/kernels/reductions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/reduce/vector_rows.cc"
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/reduce/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kDownBlock = 32;  // rows merged in float32
constexpr std::int64_t kRowsAtOnce = 8;

// S: the same formula for numbers.
template <typename F, typename S, bool kPivot>
void across(const ReduceRun& run) {
  const auto* in = static_cast<const float*>(run.in);
  auto* const totals = static_cast<double*>(run.totals);
  Beside<Lanes> beside{Lanes(0), Lanes(run.p)};
  for (std::int64_t r = 0; r < run.results; ++r, in += run.step) {
    if constexpr (kPivot) beside.pivot = Lanes(run.pivots[r]);
    double total = totals[r];
    for (std::int64_t i = 0; i < run.count; i += kAcrossBlock) {
      const std::int64_t count = std::min(kAcrossBlock, run.count - i);
      total = S::merge(total, static_cast<double>(merge_block<F>(in + i, count, beside)));
    }
    totals[r] = total;
  }
}

template <typename F, typename S, bool kPivot>
void down(const ReduceRun& run) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* const in = static_cast<const float*>(run.in);
  auto* const totals = static_cast<double*>(run.totals);
  HWY_ALIGN float block[kResults];
  HWY_ALIGN float pivots[kResults];
  const std::int64_t whole = run.results / lanes * lanes;
  if constexpr (kPivot) {
    for (std::int64_t c = 0; c < whole; ++c) pivots[c] = static_cast<float>(run.pivots[c]);
  }
  const Lanes none = F::template identity<Lanes>();
  for (std::int64_t first = 0; first < run.count; first += kDownBlock) {
    const std::int64_t end = std::min(run.count, first + kDownBlock);
    for (std::int64_t row = first; row < end; row += kRowsAtOnce) {
      const std::int64_t rows = std::min(kRowsAtOnce, end - row);
      const float* const x = in + row * run.step;
      for (std::int64_t c = 0; c < whole; c += lanes) {
        Beside<Lanes> beside{Lanes(0), Lanes(run.p)};
        if constexpr (kPivot) beside.pivot = load(pivots + c);
        Lanes a = row == first ? none : load(block + c);
        if (rows == kRowsAtOnce) {
          for (std::int64_t r = 0; r < kRowsAtOnce; ++r) {
            a = F::merge(a, F::term(load(x + r * run.step + c), beside));
          }
        } else {
          for (std::int64_t r = 0; r < rows; ++r) {
            a = F::merge(a, F::term(load(x + r * run.step + c), beside));
          }
        }
        hn::StoreU(a.v, d, block + c);
      }
    }
    for (std::int64_t c = 0; c < whole; ++c) {
      totals[c] = S::merge(totals[c], static_cast<double>(block[c]));
    }
  }
  for (std::int64_t c = whole; c < run.results; ++c) {
    reductions::Beside<float> beside{0, static_cast<float>(run.p)};
    if constexpr (kPivot) beside.pivot = static_cast<float>(run.pivots[c]);
    double total = totals[c];
    for (std::int64_t row = 0; row < run.count; ++row) {
      total = S::merge(total, static_cast<double>(S::term(in[row * run.step + c], beside)));
    }
    totals[c] = total;
  }
}

ReduceRows find_reduce_rows(ReduceFn fn) {
  static constexpr ReduceRows kRows[] = {
#define DL_REDUCTION_FN(enumerator, name, Formula, text, takes, gives, pivot, ...) \
  {&across < Formula, reductions::Formula, Pivot::pivot != Pivot::kNone >,         \
   &down < Formula,   reductions::Formula, Pivot::pivot != Pivot::kNone > },
#include "core/reductions/list.def"
  };
  return kRows[static_cast<std::size_t>(fn)];
}

std::int64_t find_first_lane(const float* in, std::int64_t count, float value) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  const bool is_nan = value != value;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, in + i);
    const auto found = is_nan ? hn::Not(hn::Eq(x, x)) : hn::Eq(x, wanted);
    const auto lane = hn::FindFirstTrue(d, found);
    if (lane >= 0) return i + lane;
  }
  for (; i < count; ++i) {
    if (in[i] == value || (is_nan && in[i] != in[i])) break;
  }
  return i;
}

template <bool kLargest>
void run_extremes_down(const ExtremeRun& run) {
  const Lanes::D d;
  const hn::RebindToSigned<Lanes::D> whole_numbers;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = run.columns / lanes * lanes;
  for (std::int64_t row = 0; row < run.rows; row += kRowsAtOnce) {
    const std::int64_t end = std::min(run.rows, row + kRowsAtOnce);
    for (std::int64_t c = 0; c < whole; c += lanes) {
      Lanes best = load(run.best + c);
      auto places = hn::LoadU(whole_numbers, run.places + c);
      for (std::int64_t r = row; r < end; ++r) {
        const Lanes x = load(run.in + r * run.step + c);
        const LaneMask better = kLargest ? best < x : x < best;
        const auto first_nan = hn::AndNot((best != best).m, (x != x).m);
        const LaneMask wins{hn::Or(better.m, first_nan)};
        best = select(wins, x, best);
        const auto place = hn::Set(whole_numbers, static_cast<std::int32_t>(run.first + r));
        places = hn::IfThenElse(hn::RebindMask(whole_numbers, wins.m), place, places);
      }
      hn::StoreU(best.v, d, run.best + c);
      hn::StoreU(places, whole_numbers, run.places + c);
    }
    for (std::int64_t r = row; r < end; ++r) {
      for (std::int64_t c = whole; c < run.columns; ++c) {
        const float x = run.in[r * run.step + c];
        const float best = run.best[c];
        const bool better = kLargest ? best < x : x < best;
        if (better || (x != x && best == best)) {
          run.best[c] = x;
          run.places[c] = static_cast<std::int32_t>(run.first + r);
        }
      }
    }
  }
}

void both_extremes_down(const ExtremeRun& run) {
  run.largest ? run_extremes_down<true>(run) : run_extremes_down<false>(run);
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(find_reduce_rows);
HWY_EXPORT(find_first_lane);
HWY_EXPORT(both_extremes_down);

ReduceRows vector_rows_of(ReduceFn fn) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_reduce_rows)(fn);
}
std::int64_t find_first(const float* in, std::int64_t count, float value) noexcept {
  return HWY_DYNAMIC_DISPATCH(find_first_lane)(in, count, value);
}
void extremes_down(const ExtremeRun& run) noexcept {
  HWY_DYNAMIC_DISPATCH(both_extremes_down)(run);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
