#include "core/kernels/cpu/softmax/softmax_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/softmax/softmax_rows.cc"
#endif
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/reduce/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// e^x for x <= 0; returns 0 for NaN and for results below the smallest normal number. If a line has
// a NaN, its largest element is NaN; all powers and their sum are then 0, and all results are NaN.
HWY_INLINE Lanes exp_below(Lanes x) {
  const Lanes::D d;
  return Lanes(hn::IfThenElseZero(hn::Ge(x.v, hn::Set(d, -87.3f)), exp_normal(x).v));
}

struct PowersBelow : AddTerms {
  template <typename N>
  static HWY_INLINE N term(N x, const TermArgs<N>& args) {
    return exp_below(x - args.pivot);
  }
};

// out[i] = f(a[i], b[i]) for `count` elements, and the sum of all results.
template <typename F>
HWY_INLINE float map_lanes(const float* a, const float* b, float* out, std::int64_t count,
                           const F& f) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Lanes total(0);
  Lanes other(0);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const Lanes y = f(load(a + i), load(b + i));
    const Lanes z = f(load(a + i + lanes), load(b + i + lanes));
    hn::StoreU(y.v, d, out + i);
    hn::StoreU(z.v, d, out + i + lanes);
    total = total + y;
    other = other + z;
  }
  for (; i < count; i += lanes) {
    const auto rest = static_cast<std::size_t>(std::min(lanes, count - i));
    const Lanes y = f(load_first(a + i, rest), load_first(b + i, rest));
    store_first(y, out + i, rest);
    total = total + Lanes(hn::IfThenElseZero(hn::FirstN(d, rest), y.v));
  }
  return merge_lanes<Total>(total + other);
}

// Merges a line block by block, in double.
template <typename F>
HWY_INLINE double merge_line(const float* in, std::int64_t size, const TermArgs<Lanes>& args) {
  double total = 0;
  for (std::int64_t i = 0; i < size; i += kAcrossBlock) {
    total += static_cast<double>(merge_block<F>(in + i, std::min(kAcrossBlock, size - i), args));
  }
  return total;
}

template <typename F>
HWY_INLINE double map_line(const float* a, const float* b, float* out, std::int64_t size,
                           const F& f) {
  double total = 0;
  for (std::int64_t i = 0; i < size; i += kAcrossBlock) {
    total +=
        static_cast<double>(map_lanes(a + i, b + i, out + i, std::min(kAcrossBlock, size - i), f));
  }
  return total;
}

void one_line(bool is_log, const float* in, float* out, std::int64_t size) {
  const TermArgs<Lanes> none{Lanes(0), Lanes(0)};
  const Lanes largest(merge_block<Largest>(in, size, none));
  if (is_log) {
    const double total = merge_line<PowersBelow>(in, size, {largest, Lanes(0)});
    // Two subtractions, because adding a large maximum would round the logarithm away.
    const Lanes log_total(std::log(total));
    map_line(in, in, out, size, [&](Lanes x, Lanes) HWY_ATTR { return x - largest - log_total; });
    return;
  }
  const double total =
      map_line(in, in, out, size, [&](Lanes x, Lanes) HWY_ATTR { return exp_below(x - largest); });
  const Lanes scale(1.0 / total);
  map_line(out, out, out, size, [&](Lanes y, Lanes) HWY_ATTR { return y * scale; });
}

// softmax:     dx = y (g - sum(g y))
// log_softmax: dx = g - e^y sum(g)
void one_line_backward(bool is_log, const float* g, const float* y, float* out, std::int64_t size) {
  if (is_log) {
    const Lanes total(merge_line<Total>(g, size, {Lanes(0), Lanes(0)}));
    map_line(g, y, out, size, [&](Lanes gi, Lanes yi) HWY_ATTR { return gi - exp_of(yi) * total; });
    return;
  }
  const Lanes total(map_line(g, y, out, size, [](Lanes gi, Lanes yi) HWY_ATTR { return gi * yi; }));
  map_line(g, y, out, size, [&](Lanes gi, Lanes yi) HWY_ATTR { return yi * (gi - total); });
}

void lines_forward(bool is_log, const float* in, float* out, std::int64_t size,
                   std::int64_t lines) {
  for (std::int64_t i = 0; i < lines; ++i) one_line(is_log, in + i * size, out + i * size, size);
}

void lines_backward(bool is_log, const float* g, const float* y, float* out, std::int64_t size,
                    std::int64_t lines) {
  for (std::int64_t i = 0; i < lines * size; i += size) {
    one_line_backward(is_log, g + i, y + i, out + i, size);
  }
}

// A number for each column, and space for a whole vector after the last.
using Columns = float[kSoftmaxColumns + hn::MaxLanes(Lanes::D())];

// out = f(a, b, fixed, state) for `size` rows of `columns` elements, `step` apart. `fixed` and
// `state` have a number for each column, and f may change the state. No output: out is null.
template <typename F>
HWY_INLINE void map_rows(const float* a, const float* b, float* out, const Columns& fixed,
                         Columns& state, std::int64_t size, std::int64_t step, std::int64_t columns,
                         const F& f) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = columns / lanes * lanes;
  const auto rest = static_cast<std::size_t>(columns - whole);
  for (std::int64_t r = 0; r < size; ++r) {
    const float* const x = a + r * step;
    const float* const y = b + r * step;
    float* const z = out == nullptr ? nullptr : out + r * step;
    for (std::int64_t c = 0; c < whole; c += lanes) {
      Lanes kept = load(state + c);
      const Lanes result = f(load(x + c), load(y + c), load(fixed + c), kept);
      hn::StoreU(kept.v, d, state + c);
      if (z != nullptr) hn::StoreU(result.v, d, z + c);
    }
    if (rest == 0) continue;
    Lanes kept = load(state + whole);
    const Lanes result =
        f(load_first(x + whole, rest), load_first(y + whole, rest), load(fixed + whole), kept);
    hn::StoreU(kept.v, d, state + whole);
    if (z != nullptr) store_first(result, z + whole, rest);
  }
}

// map_rows() that also writes the sums of the results to `sums`: within blocks of rows in float32,
// across blocks in double. f adds its result to the state.
template <typename F>
HWY_INLINE void sum_rows(const float* a, const float* b, float* out, const Columns& fixed,
                         double* sums, std::int64_t size, std::int64_t step, std::int64_t columns,
                         const F& f) {
  constexpr std::int64_t kRows = 32;
  std::fill_n(sums, columns, 0.0);
  for (std::int64_t r = 0; r < size; r += kRows) {
    HWY_ALIGN Columns block = {};
    map_rows(a + r * step, b + r * step, out == nullptr ? nullptr : out + r * step, fixed, block,
             std::min(kRows, size - r), step, columns, f);
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += static_cast<double>(block[c]);
  }
}

void columns_forward(bool is_log, const float* in, float* out, std::int64_t size, std::int64_t step,
                     std::int64_t columns) {
  HWY_ALIGN Columns largest;
  HWY_ALIGN Columns ends = {};
  double sums[kSoftmaxColumns];
  std::fill(std::begin(largest), std::end(largest), -std::numeric_limits<float>::infinity());
  map_rows(in, in, nullptr, ends, largest, size, step, columns,
           [](Lanes x, Lanes, Lanes, Lanes& best) HWY_ATTR {
             best = Largest::merge(best, x);
             return x;
           });
  sum_rows(in, in, is_log ? nullptr : out, largest, sums, size, step, columns,
           [](Lanes x, Lanes, Lanes most, Lanes& total) HWY_ATTR {
             const Lanes e = exp_below(x - most);
             total = total + e;
             return e;
           });
  for (std::int64_t c = 0; c < columns; ++c) {
    ends[c] = static_cast<float>(is_log ? std::log(sums[c]) : 1.0 / sums[c]);
  }
  if (is_log) {
    // Two subtractions, because adding a large maximum would round the logarithm away.
    map_rows(in, in, out, largest, ends, size, step, columns,
             [](Lanes x, Lanes, Lanes most, Lanes& log_total)
                 HWY_ATTR { return x - most - log_total; });
  } else {
    map_rows(out, out, out, largest, ends, size, step, columns,
             [](Lanes y, Lanes, Lanes, Lanes& scale) HWY_ATTR { return y * scale; });
  }
}

void columns_backward(bool is_log, const float* g, const float* y, float* out, std::int64_t size,
                      std::int64_t step, std::int64_t columns) {
  HWY_ALIGN Columns totals = {};
  double sums[kSoftmaxColumns];
  const auto add_up = [is_log](Lanes gi, Lanes yi, Lanes, Lanes& total) HWY_ATTR {
    const Lanes term = is_log ? gi : gi * yi;
    total = total + term;
    return term;
  };
  sum_rows(g, y, nullptr, totals, sums, size, step, columns, add_up);
  for (std::int64_t c = 0; c < columns; ++c) totals[c] = static_cast<float>(sums[c]);
  if (is_log) {
    map_rows(g, y, out, totals, totals, size, step, columns,
             [](Lanes gi, Lanes yi, Lanes, Lanes& total)
                 HWY_ATTR { return gi - exp_of(yi) * total; });
  } else {
    map_rows(g, y, out, totals, totals, size, step, columns,
             [](Lanes gi, Lanes yi, Lanes, Lanes& total) HWY_ATTR { return yi * (gi - total); });
  }
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(lines_forward);
HWY_EXPORT(lines_backward);
HWY_EXPORT(columns_forward);
HWY_EXPORT(columns_backward);

void softmax_lines(bool is_log, const float* in, float* out, std::int64_t size,
                   std::int64_t lines) noexcept {
  HWY_DYNAMIC_DISPATCH(lines_forward)(is_log, in, out, size, lines);
}
void softmax_lines_backward(bool is_log, const float* grad, const float* output, float* out,
                            std::int64_t size, std::int64_t lines) noexcept {
  HWY_DYNAMIC_DISPATCH(lines_backward)(is_log, grad, output, out, size, lines);
}
void softmax_columns(bool is_log, const float* in, float* out, std::int64_t size, std::int64_t step,
                     std::int64_t columns) noexcept {
  HWY_DYNAMIC_DISPATCH(columns_forward)(is_log, in, out, size, step, columns);
}
void softmax_columns_backward(bool is_log, const float* grad, const float* output, float* out,
                              std::int64_t size, std::int64_t step, std::int64_t columns) noexcept {
  HWY_DYNAMIC_DISPATCH(columns_backward)(is_log, grad, output, out, size, step, columns);
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
