// The rows of reductions for float64 and int64, the functions on totals, and the table of all
// reductions.
#include <algorithm>
#include <array>

#include "core/kernels/cpu/reduce/rows.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cpu {
namespace {

using reductions::TermArgs;

template <typename T>
TermArgs<NumberOf<T>> term_args_of(const ReduceRun& run) {
  if constexpr (std::is_floating_point_v<T>) {
    return {0, run.p};
  } else {
    return {NumberOf<T>(T{0}), NumberOf<T>(T{0})};
  }
}

// Eight independent totals hide the latency of a merge.
template <typename F, typename T, bool kPivot>
void scalars_across(const ReduceRun& run) {
  using N = NumberOf<T>;
  constexpr std::int64_t kLanes = 8;
  const T* in = static_cast<const T*>(run.in);
  T* const totals = static_cast<T*>(run.totals);
  auto args = term_args_of<T>(run);
  for (std::int64_t r = 0; r < run.results; ++r, in += run.step) {
    if constexpr (kPivot) args.pivot = N(run.pivots[r]);
    N total(totals[r]);
    std::int64_t i = 0;
    if (run.count >= kLanes) {
      std::array<N, kLanes> lanes;
      lanes.fill(F::template identity<N>());
      for (; i + kLanes <= run.count; i += kLanes) {
        for (std::size_t k = 0; k < kLanes; ++k) {
          lanes[k] = F::merge(lanes[k], F::term(N(in[i + static_cast<std::int64_t>(k)]), args));
        }
      }
      for (const N lane : lanes) total = F::merge(total, lane);
    }
    for (; i < run.count; ++i) total = F::merge(total, F::term(N(in[i]), args));
    totals[r] = element_of(total);
  }
}

template <typename F, typename T, bool kPivot>
void scalars_down(const ReduceRun& run) {
  using N = NumberOf<T>;
  const T* in = static_cast<const T*>(run.in);
  T* const totals = static_cast<T*>(run.totals);
  auto args = term_args_of<T>(run);
  for (std::int64_t row = 0; row < run.count; ++row, in += run.step) {
    for (std::int64_t c = 0; c < run.results; ++c) {
      if constexpr (kPivot) args.pivot = N(run.pivots[c]);
      totals[c] = element_of(F::merge(N(totals[c]), F::term(N(in[c]), args)));
    }
  }
}

template <typename F, typename T>
void begin_totals(T* totals, std::int64_t results) {
  std::fill_n(totals, results, element_of(F::template identity<NumberOf<T>>()));
}

template <typename F, typename T>
void merge_totals(T* a, const T* b, std::int64_t results) {
  using N = NumberOf<T>;
  for (std::int64_t i = 0; i < results; ++i) a[i] = element_of(F::merge(N(a[i]), N(b[i])));
}

template <typename F>
void finish_totals(double* totals, const double* pivots, std::int64_t results, double count,
                   double p) {
  for (std::int64_t i = 0; i < results; ++i) {
    totals[i] = F::finish(totals[i], {count, pivots == nullptr ? 0 : pivots[i], p});
  }
}

template <ReduceFn fn, typename F>
constexpr Reduction make_reduction() {
  constexpr bool kPivot = facts(fn).pivot != Pivot::kNone;
  using Loop = reductions::LoopOf<F>;
  Reduction result{
      .f32 = {},
      .f64 = {&scalars_across<Loop, double, kPivot>, &scalars_down<Loop, double, kPivot>},
      .i64 = {},
      .begin = &begin_totals<Loop, double>,
      .begin_whole = nullptr,
      .merge = &merge_totals<Loop, double>,
      .merge_whole = nullptr,
      .finish = &finish_totals<F>};
  if constexpr (facts(fn).takes == Takes::kAll) {
    using I = std::int64_t;
    result.i64 = {&scalars_across<Loop, I, false>, &scalars_down<Loop, I, false>};
    result.begin_whole = &begin_totals<Loop, I>;
    result.merge_whole = &merge_totals<Loop, I>;
  }
  return result;
}

}  // namespace

const Reduction& reduction_of(ReduceFn fn) noexcept {
  static constexpr Reduction kReductions[] = {
#define DL_REDUCTION_FN(enumerator, name, Formula, ...) \
  make_reduction<ReduceFn::enumerator, reductions::Formula>(),
#include "core/reductions/list.def"
  };
  return kReductions[static_cast<std::size_t>(fn)];
}

}  // namespace dl::kernels::cpu
