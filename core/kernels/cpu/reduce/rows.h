// Rows: the inner loops of reductions, over dense elements. The outer loops (loops.cc) handle
// dimensions, strides, threads and narrower dtypes. A row reads float, double or int64 and merges
// into totals of double or int64.
#pragma once

#include <cstdint>

#include "core/reductions/list.h"

namespace dl::kernels::cpu {

inline constexpr std::int64_t kResults = 512;  // the most results of one call of a row

// `across`: each result has `count` adjacent elements, and the next result's begin `step` elements
// later. `down`: results are adjacent, and each has `count` elements that are `step` apart.
struct ReduceRun {
  const void* in;
  std::int64_t count;
  std::int64_t step;
  std::int64_t results;  // at most kResults
  void* totals;          // merged with the elements
  const double* pivots;  // one a result; read only if the reduction has a pivot
  double p;
  // Receives the sums of float32 elements' distances from a pivot near their mean.
  double* distances = nullptr;
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
// Vectorised rows for float32.
ReduceRows vector_rows_of(ReduceFn fn) noexcept;

// Finds the index of an extreme. `largest`: maximum, else minimum.
//
// Returns the first of `count` dense elements that equals `value`, or is NaN if `value` is NaN.
// There must be one.
std::int64_t find_first(const float* in, std::int64_t count, float value) noexcept;
// Adjacent results: row `first` + i of column c is in[i * step + c]. If a row beats best[c],
// best[c] becomes its value and places[c] its row number. The first of equal rows stays, and NaN
// beats numbers.
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
