// Vectorised loops of normalisation over dense runs of float or double. Sums have the run's type:
// callers keep runs short and add their sums in float64.
#pragma once

#include <cstdint>

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

  // For `rows` rows of n columns: one result for each column.
  void (*column_sums)(std::int64_t rows, std::int64_t n, const T* x, T* sums);
  void (*column_moments)(std::int64_t rows, std::int64_t n, const T* x, const T* shift, T* sums,
                         T* squares);
  void (*column_map)(std::int64_t rows, std::int64_t n, const T* x, const T* shift, const T* scale,
                     const T* add, T* y);
  void (*column_dots)(std::int64_t rows, std::int64_t n, const T* g, const T* x, const T* shift,
                      T* by_g, T* by_x);
  void (*column_combine)(std::int64_t rows, std::int64_t n, const T* g, const T* x, const T* shift,
                         const T* a, const T* b, const T* c, T* dx);
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

}  // namespace dl::kernels::cpu
