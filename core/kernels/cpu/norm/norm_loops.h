// Vectorised loops of normalisation over dense runs of float or double. Sums have the run's type:
// callers keep runs short and add their sums in float64.
#pragma once

#include <cstdint>

#include "core/tensor/half.h"

namespace dl::kernels::cpu {

template <typename T>
struct NormLoops {
  // The sum of x.
  T (*sum)(std::int64_t n, const T* x);
  // sums[0] = sum of x - shift, sums[1] = sum of (x - shift)^2.
  void (*moments)(std::int64_t n, const T* x, T shift, T* sums);
  // y = ((x - shift) scale + add) weight + bias; null: 1 and 0.
  void (*normalize)(std::int64_t n, const T* x, T shift, T scale, T add, const T* weight,
                    const T* bias, T* y);
  // y = (x - shift) scale + add
  void (*map)(std::int64_t n, const T* x, T shift, T scale, T add, T* y);
  // sums[0] = sum of g weight, sums[1] = sum of g weight (x - shift); null: 1.
  void (*dots)(std::int64_t n, const T* g, const T* x, T shift, const T* weight, T* sums);
  // dx = a g weight + b (x - shift) + c; null: 1.
  void (*combine)(std::int64_t n, const T* g, const T* x, T shift, const T* weight, T a, T b, T c,
                  T* dx);
  // by_g += g, by_x += g ((x - shift) scale + add), element by element.
  void (*gather)(std::int64_t n, const T* g, const T* x, T shift, T scale, T add, T* by_g, T* by_x);

  // Merges moments of n columns (Chan, Golub and LeVeque 1983): those of `rows` rows, given as sums
  // of the distances from `near` and of their squares, into the mean and the squared distances of
  // the `before` rows so far.
  void (*column_join)(std::int64_t n, double rows, const T* near, const T* distances,
                      const T* squares, double before, double* mean, double* total);
  // total += sums, sums = 0.
  void (*take_sums)(std::int64_t n, T* sums, double* total);
};

template <typename T>
const NormLoops<T>& norm_loops() noexcept;  // float and double

// For `rows` rows of n columns: one result for each column. The rows hold S, which is T, or
// bfloat16 for float.
template <typename T, typename S>
struct ColumnLoops {
  void (*sums)(std::int64_t rows, std::int64_t n, const S* x, T* sums);
  void (*moments)(std::int64_t rows, std::int64_t n, const S* x, const T* shift, T* sums,
                  T* squares);
  void (*map)(std::int64_t rows, std::int64_t n, const S* x, const T* shift, const T* scale,
              const T* add, S* y);
  void (*dots)(std::int64_t rows, std::int64_t n, const S* g, const S* x, const T* shift, T* by_g,
               T* by_x);
  void (*combine)(std::int64_t rows, std::int64_t n, const S* g, const S* x, const T* shift,
                  const T* a, const T* b, const T* c, S* dx);
};

template <typename T, typename S>
const ColumnLoops<T, S>& column_loops() noexcept;

}  // namespace dl::kernels::cpu
