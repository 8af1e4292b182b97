// Rows: what reductions do to dense elements. The loops (loops.cc) bring dimensions, strides,
// threads and the narrower dtypes; a row sees float, double or int64 and adds to totals of double
// or int64.
#pragma once

#include <cstdint>

#include "core/reductions/list.h"

namespace dl::kernels::cpu {

inline constexpr std::int64_t kResults = 512;  // the most results that a row works on at once

// `across`: each result's elements lie side by side, `count` of them, and the next result's begin
// `step` elements further on. `down`: results lie side by side, and each has `count` elements
// `step` apart.
struct ReduceRun {
  const void* in;
  std::int64_t count;
  std::int64_t step;
  std::int64_t results;  // at most kResults
  void* totals;          // what is there is merged with
  const double* pivots;  // one a result; read only if the reduction has a pivot
  double p;
  double* distances = nullptr;  // of float32 elements from a pivot near their mean: added up
};
using ReduceRow = void (*)(const ReduceRun& run);

struct ReduceRows {
  ReduceRow across = nullptr;
  ReduceRow down = nullptr;
};

// The functions of one reduction, by element type: float, double, int64.
struct Reduction {
  ReduceRows f32{}, f64{}, i64{};
  // For totals of double and of int64: set to the identity, and b merged into a.
  void (*begin)(double* totals, std::int64_t results);
  void (*begin_whole)(std::int64_t* totals, std::int64_t results);
  void (*merge)(double* a, const double* b, std::int64_t results);
  void (*merge_whole)(std::int64_t* a, const std::int64_t* b, std::int64_t results);
  void (*finish)(double* totals, const double* pivots, std::int64_t results, double count,
                 double p);
};
const Reduction& reduction_of(ReduceFn fn) noexcept;
// float32 on the vectors of the processor at hand.
ReduceRows vector_rows_of(ReduceFn fn) noexcept;

// Finds the place of an extreme. `largest`: maximum, else minimum.
//
// Returns the first of `count` dense elements that equals `value`, or is NaN if `value` is. There
// must be one.
std::int64_t find_first(const float* in, std::int64_t count, float value) noexcept;
// Results side by side: row `first` + i of column c is in[i * step + c]. best[c] is replaced if a
// row beats it, places[c] by that row's number; the first of equal rows stays, NaN beats numbers.
struct ExtremeRun {
  const float* in;
  std::int64_t rows;
  std::int64_t step;
  std::int64_t columns;
  float* best;
  std::int32_t* places;
  std::int64_t first;
  bool largest;
};
void extremes_down(const ExtremeRun& run) noexcept;

}  // namespace dl::kernels::cpu
