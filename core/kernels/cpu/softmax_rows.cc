#include "core/kernels/cpu/softmax_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/softmax_rows.cc"
#include <hwy/foreach_target.h>
//
#include "core/kernels/cpu/reduce/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// out[i] = f(a[i], b[i]) for `count` elements, and the sum of all results. The tail is computed in
// padded copies, by the same instructions.
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
    HWY_ALIGN float pad_a[hn::MaxLanes(d)] = {};
    HWY_ALIGN float pad_b[hn::MaxLanes(d)] = {};
    std::memcpy(pad_a, a + i, rest * sizeof(float));
    std::memcpy(pad_b, b + i, rest * sizeof(float));
    const Lanes y = f(load(pad_a), load(pad_b));
    hn::StoreU(y.v, d, pad_a);
    std::memcpy(out + i, pad_a, rest * sizeof(float));
    total = total + Lanes(hn::IfThenElseZero(hn::FirstN(d, rest), y.v));
  }
  return merge_lanes<Total>(total + other);
}

// The merge of a line, block by block, in double.
template <typename F>
HWY_INLINE double merge_line(const float* in, std::int64_t size, const Beside<Lanes>& beside) {
  double total = 0;
  for (std::int64_t i = 0; i < size; i += kAcrossBlock) {
    total += static_cast<double>(merge_block<F>(in + i, std::min(kAcrossBlock, size - i), beside));
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

void line(bool is_log, const float* in, float* out, std::int64_t size) {
  const Beside<Lanes> none{Lanes(0), Lanes(0)};
  const Lanes largest(merge_block<Largest>(in, size, none));
  if (is_log) {
    const double total = merge_line<LogSumExp>(in, size, {largest, Lanes(0)});
    // Two subtractions: a large maximum would round the logarithm away.
    const Lanes log_total(std::log(total));
    map_line(in, in, out, size, [&](Lanes x, Lanes) HWY_ATTR { return x - largest - log_total; });
    return;
  }
  const double total =
      map_line(in, in, out, size, [&](Lanes x, Lanes) HWY_ATTR { return exp_of(x - largest); });
  const Lanes scale(1.0 / total);
  map_line(out, out, out, size, [&](Lanes y, Lanes) HWY_ATTR { return y * scale; });
}

// softmax:     dx = y (g - sum(g y))
// log_softmax: dx = g - e^y sum(g)
void line_backward(bool is_log, const float* g, const float* y, float* out, std::int64_t size) {
  if (is_log) {
    const Lanes total(merge_line<Total>(g, size, {Lanes(0), Lanes(0)}));
    map_line(g, y, out, size, [&](Lanes gi, Lanes yi) HWY_ATTR { return gi - exp_of(yi) * total; });
    return;
  }
  const Lanes total(map_line(g, y, out, size, [](Lanes gi, Lanes yi) HWY_ATTR { return gi * yi; }));
  map_line(g, y, out, size, [&](Lanes gi, Lanes yi) HWY_ATTR { return yi * (gi - total); });
}

// A number for each column, and room for a whole vector behind the last.
using Columns = float[kSoftmaxColumns + hn::MaxLanes(Lanes::D())];

// out = f(a, b, fixed, state) for `size` rows of `columns` elements, `step` apart. `fixed` and
// `state` have a number for each column, and f may change the state. No output: out is null. The
// tail of a row is computed in padded copies.
template <typename F>
HWY_INLINE void map_rows(const float* a, const float* b, float* out, const Columns& fixed,
                         Columns& state, std::int64_t size, std::int64_t step, std::int64_t columns,
                         const F& f) {
  const Lanes::D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = columns / lanes * lanes;
  const auto rest = static_cast<std::size_t>(columns - whole);
  HWY_ALIGN float pad_a[hn::MaxLanes(d)] = {};
  HWY_ALIGN float pad_b[hn::MaxLanes(d)] = {};
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
    std::memcpy(pad_a, x + whole, rest * sizeof(float));
    std::memcpy(pad_b, y + whole, rest * sizeof(float));
    Lanes kept = load(state + whole);
    const Lanes result = f(load(pad_a), load(pad_b), load(fixed + whole), kept);
    hn::StoreU(kept.v, d, state + whole);
    if (z == nullptr) continue;
    HWY_ALIGN float pad[hn::MaxLanes(d)];
    hn::Store(result.v, d, pad);
    std::memcpy(z + whole, pad, rest * sizeof(float));
  }
}

// The same, and the sums of the results in `sums`: of blocks of rows in float32, of these in
// double. f adds its result to the state.
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
             const Lanes e = exp_of(x - most);
             total = total + e;
             return e;
           });
  for (std::int64_t c = 0; c < columns; ++c) {
    ends[c] = static_cast<float>(is_log ? std::log(sums[c]) : 1.0 / sums[c]);
  }
  if (is_log) {
    // Two subtractions: a large maximum would round the logarithm away.
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

HWY_EXPORT(line);
HWY_EXPORT(line_backward);
HWY_EXPORT(columns_forward);
HWY_EXPORT(columns_backward);

void softmax_line(bool is_log, const float* in, float* out, std::int64_t size) noexcept {
  HWY_DYNAMIC_DISPATCH(line)(is_log, in, out, size);
}
void softmax_line_backward(bool is_log, const float* grad, const float* output, float* out,
                           std::int64_t size) noexcept {
  HWY_DYNAMIC_DISPATCH(line_backward)(is_log, grad, output, out, size);
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
