// The rows of reductions for float32. A block's terms are merged in four vectors, and blocks in
// double, so that sums of many terms stay accurate.
#include <cstring>
#include <type_traits>

#include "core/kernels/cpu/reduce/rows.h"
#include "core/kernels/formulas/scalars.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/reduce/vector_rows.cc"
#endif
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
  TermArgs<Lanes> args{Lanes(0), Lanes(run.p)};
  for (std::int64_t r = 0; r < run.results; ++r, in += run.step) {
    if constexpr (kPivot) args.pivot = Lanes(run.pivots[r]);
    double total = totals[r];
    for (std::int64_t i = 0; i < run.count; i += kAcrossBlock) {
      const std::int64_t count = std::min(kAcrossBlock, run.count - i);
      total = S::merge(total, static_cast<double>(merge_block<F>(in + i, count, args)));
    }
    totals[r] = total;
  }
}

// The merge of `rows` rows of one vector of columns. Merges pairs first, because a chain would wait
// for each merge.
template <typename F, typename LoadRow>
HWY_INLINE Lanes merge_rows(Lanes a, std::int64_t rows, const TermArgs<Lanes>& args,
                            const LoadRow& load_row) {
  const auto term = [&](std::int64_t r) HWY_ATTR { return F::term(load_row(r), args); };
  if (rows != kRowsAtOnce) {
    for (std::int64_t r = 0; r < rows; ++r) a = F::merge(a, term(r));
    return a;
  }
  const Lanes low = F::merge(F::merge(term(0), term(1)), F::merge(term(2), term(3)));
  const Lanes high = F::merge(F::merge(term(4), term(5)), F::merge(term(6), term(7)));
  return F::merge(a, F::merge(low, high));
}

// Merges rows of `columns` columns, which are whole vectors, into `block`, or initialises it. Not
// inlined, because down() also calls it for the last columns.
template <typename F, bool kPivot>
HWY_NOINLINE void merge_columns(const float* in, std::int64_t step, std::int64_t rows,
                                std::int64_t columns, const float* pivots, double p, bool begins,
                                float* block) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  TermArgs<Lanes> args{Lanes(0), Lanes(p)};
  const Lanes none = F::template identity<Lanes>();
  for (std::int64_t c = 0; c < columns; c += lanes) {
    if constexpr (kPivot) args.pivot = load(pivots + c);
    const Lanes before = begins ? none : load(block + c);
    const Lanes after = merge_rows<F>(
        before, rows, args, [&](std::int64_t r) HWY_ATTR { return load(in + r * step + c); });
    hn::StoreU(after.v, d, block + c);
  }
}

template <typename F, typename S, bool kPivot>
void down(const ReduceRun& run) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* const in = static_cast<const float*>(run.in);
  auto* const totals = static_cast<double*>(run.totals);
  constexpr std::int64_t kRoom = kResults + hn::MaxLanes(Lanes::D());  // for a whole last vector
  HWY_ALIGN float block[kRoom];
  HWY_ALIGN float pivots[kRoom];
  HWY_ALIGN float last[kRowsAtOnce * hn::MaxLanes(Lanes::D())];  // the columns after `whole`
  const std::int64_t whole = run.results / lanes * lanes;
  const auto rest = static_cast<std::size_t>(run.results - whole);
  if constexpr (kPivot) {
    for (std::int64_t c = 0; c < run.results; ++c) pivots[c] = static_cast<float>(run.pivots[c]);
    std::fill_n(pivots + run.results, lanes, 0.0F);
  }
  for (std::int64_t first = 0; first < run.count; first += kDownBlock) {
    const std::int64_t end = std::min(run.count, first + kDownBlock);
    for (std::int64_t row = first; row < end; row += kRowsAtOnce) {
      const std::int64_t rows = std::min(kRowsAtOnce, end - row);
      const float* const x = in + row * run.step;
      const bool begins = row == first;
      merge_columns<F, kPivot>(x, run.step, rows, whole, pivots, run.p, begins, block);
      if (rest == 0) continue;
      for (std::int64_t r = 0; r < rows; ++r) {
        hn::Store(load_first(x + r * run.step + whole, rest).v, d, last + r * lanes);
      }
      merge_columns<F, kPivot>(last, lanes, rows, lanes, pivots + whole, run.p, begins,
                               block + whole);
    }
    for (std::int64_t c = 0; c < run.results; ++c) {
      totals[c] = S::merge(totals[c], static_cast<double>(block[c]));
    }
  }
}

// Adds the distances of `count` elements from `pivot`, and the distances' squares, to the totals.
HWY_INLINE void add_distances(const float* in, std::int64_t count, Lanes pivot, double& distances,
                              double& squares) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Lanes first(0);
  Lanes second(0);
  const auto add = [](Lanes& sum, Lanes& squares_sum, Lanes distance) HWY_ATTR {
    sum = sum + distance;
    squares_sum = mul_add(distance, distance, squares_sum);
  };
  std::int64_t i = 0;
  if (count >= 4 * lanes) {
    Lanes more[3] = {Lanes(0), Lanes(0), Lanes(0)};
    Lanes more_squares[3] = {Lanes(0), Lanes(0), Lanes(0)};
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      add(first, second, load(in + i) - pivot);
      for (int k = 0; k < 3; ++k) {
        add(more[k], more_squares[k], load(in + i + (k + 1) * lanes) - pivot);
      }
    }
    first = (first + more[0]) + (more[1] + more[2]);
    second = (second + more_squares[0]) + (more_squares[1] + more_squares[2]);
  }
  for (; i + lanes <= count; i += lanes) add(first, second, load(in + i) - pivot);
  if (i < count) {
    const auto rest = static_cast<std::size_t>(count - i);
    const Lanes last = load_first(in + i, rest) - pivot;
    add(first, second, Lanes(hn::IfThenElseZero(hn::FirstN(d, rest), last.v)));
  }
  distances += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, first.v)));
  squares += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, second.v)));
}

void distances_across(const ReduceRun& run) {
  const auto* in = static_cast<const float*>(run.in);
  auto* const totals = static_cast<double*>(run.totals);
  for (std::int64_t r = 0; r < run.results; ++r, in += run.step) {
    const Lanes pivot(run.pivots[r]);
    for (std::int64_t i = 0; i < run.count; i += kAcrossBlock) {
      add_distances(in + i, std::min(kAcrossBlock, run.count - i), pivot, run.distances[r],
                    totals[r]);
    }
  }
}

// Rows of `columns` columns, which are whole vectors: adds their distances from the pivots, and the
// distances' squares, to the two blocks, or initialises these.
HWY_NOINLINE void add_column_distances(const float* in, std::int64_t step, std::int64_t rows,
                                       std::int64_t columns, const float* pivots, bool begins,
                                       float* distances, float* squares) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < columns; c += lanes) {
    const Lanes pivot = load(pivots + c);
    Lanes first = begins ? Lanes(0) : load(distances + c);
    Lanes second = begins ? Lanes(0) : load(squares + c);
    const auto distance = [&](std::int64_t r) HWY_ATTR { return load(in + r * step + c) - pivot; };
    if (rows == kRowsAtOnce) {  // two chains of sums, because one would wait for each addition
      Lanes other(0);
      for (std::int64_t r = 0; r < kRowsAtOnce; r += 4) {
        const Lanes x[4] = {distance(r), distance(r + 1), distance(r + 2), distance(r + 3)};
        first = first + ((x[0] + x[1]) + (x[2] + x[3]));
        second = mul_add(x[2], x[2], mul_add(x[0], x[0], second));
        other = mul_add(x[3], x[3], mul_add(x[1], x[1], other));
      }
      second = second + other;
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        first = first + distance(r);
        second = mul_add(distance(r), distance(r), second);
      }
    }
    hn::StoreU(first.v, d, distances + c);
    hn::StoreU(second.v, d, squares + c);
  }
}

void distances_down(const ReduceRun& run) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* const in = static_cast<const float*>(run.in);
  auto* const totals = static_cast<double*>(run.totals);
  double* const sums = run.distances;
  constexpr std::int64_t kRoom = kResults + hn::MaxLanes(Lanes::D());  // for a whole last vector
  HWY_ALIGN float distances[kRoom];
  HWY_ALIGN float squares[kRoom];
  HWY_ALIGN float pivots[kRoom];
  HWY_ALIGN float last[kRowsAtOnce * hn::MaxLanes(Lanes::D())];  // the columns after `whole`
  const std::int64_t whole = run.results / lanes * lanes;
  const auto rest = static_cast<std::size_t>(run.results - whole);
  for (std::int64_t c = 0; c < run.results; ++c) pivots[c] = static_cast<float>(run.pivots[c]);
  std::fill_n(pivots + run.results, lanes, 0.0F);
  for (std::int64_t first = 0; first < run.count; first += kDownBlock) {
    const std::int64_t end = std::min(run.count, first + kDownBlock);
    for (std::int64_t row = first; row < end; row += kRowsAtOnce) {
      const std::int64_t rows = std::min(kRowsAtOnce, end - row);
      const float* const x = in + row * run.step;
      const bool begins = row == first;
      add_column_distances(x, run.step, rows, whole, pivots, begins, distances, squares);
      if (rest == 0) continue;
      for (std::int64_t r = 0; r < rows; ++r) {
        hn::Store(load_first(x + r * run.step + whole, rest).v, d, last + r * lanes);
      }
      add_column_distances(last, lanes, rows, lanes, pivots + whole, begins, distances + whole,
                           squares + whole);
    }
    for (std::int64_t c = 0; c < run.results; ++c) sums[c] += static_cast<double>(distances[c]);
    for (std::int64_t c = 0; c < run.results; ++c) totals[c] += static_cast<double>(squares[c]);
  }
}

template <typename F, typename S, bool kPivot>
constexpr ReduceRows rows_for() {
  if constexpr (std::is_same_v<F, SquaredDistances>) {
    return {&distances_across, &distances_down};
  } else {
    return {&across<F, S, kPivot>, &down<F, S, kPivot>};
  }
}

ReduceRows find_reduce_rows(ReduceFn fn) {
  static constexpr ReduceRows kRows[] = {
#define DL_REDUCTION_FN(enumerator, name, Formula, text, takes, gives, pivot, ...) \
  rows_for<LoopOf<Formula>, reductions::LoopOf<reductions::Formula>,               \
           Pivot::pivot != Pivot::kNone>(),
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
