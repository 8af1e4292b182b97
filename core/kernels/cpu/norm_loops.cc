#include "core/kernels/cpu/norm_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/norm_loops.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

// The compiler makes vectors of these loops, for each of Highway's targets. `omp simd` allows it to
// add in lanes.

template <typename T>
T sum(std::int64_t n, const T* x) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += x[i];
  return total;
}

template <typename T>
void moments(std::int64_t n, const T* x, T shift, T* sums) {
  T first = 0;
  T second = 0;
#pragma omp simd reduction(+ : first, second)
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = x[i] - shift;
    first += d;
    second += d * d;
  }
  sums[0] = first;
  sums[1] = second;
}

template <typename T>
void map(std::int64_t n, const T* x, T shift, T scale, T add, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale + add;
}

template <typename T>
void normalize(std::int64_t n, const T* x, T shift, T scale, const T* weight, const T* bias, T* y) {
  if (weight != nullptr && bias != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale * weight[i] + bias[i];
  } else if (weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale * weight[i];
  } else if (bias != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale + bias[i];
  } else {
    map(n, x, shift, scale, T(0), y);
  }
}

template <typename T>
void dots(std::int64_t n, const T* g, const T* x, T shift, const T* weight, T* sums) {
  T by_g = 0;
  T by_x = 0;
  if (weight == nullptr) {
#pragma omp simd reduction(+ : by_g, by_x)
    for (std::int64_t i = 0; i < n; ++i) {
      by_g += g[i];
      by_x += g[i] * (x[i] - shift);
    }
  } else {
#pragma omp simd reduction(+ : by_g, by_x)
    for (std::int64_t i = 0; i < n; ++i) {
      const T weighted = g[i] * weight[i];
      by_g += weighted;
      by_x += weighted * (x[i] - shift);
    }
  }
  sums[0] = by_g;
  sums[1] = by_x;
}

template <typename T>
void combine(std::int64_t n, const T* g, const T* x, T shift, const T* weight, T a, T b, T c,
             T* dx) {
  if (weight == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) dx[i] = a * g[i] + b * (x[i] - shift) + c;
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) dx[i] = a * g[i] * weight[i] + b * (x[i] - shift) + c;
  }
}

template <typename T>
void gather(std::int64_t n, const T* g, const T* x, T shift, T scale, T* by_g, T* by_x) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    by_g[i] += g[i];
    by_x[i] += g[i] * (x[i] - shift) * scale;
  }
}

template <typename T>
void column_sums(std::int64_t rows, std::int64_t n, const T* x, T* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[i] += x[r * n + i];
  }
}

template <typename T>
void column_moments(std::int64_t rows, std::int64_t n, const T* x, const T* shift, T* sums,
                    T* squares) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const T d = x[r * n + i] - shift[i];
      sums[i] += d;
      squares[i] += d * d;
    }
  }
}

template <typename T>
void column_map(std::int64_t rows, std::int64_t n, const T* x, const T* shift, const T* scale,
                const T* add, T* y) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      y[r * n + i] = (x[r * n + i] - shift[i]) * scale[i] + add[i];
  }
}

template <typename T>
void column_dots(std::int64_t rows, std::int64_t n, const T* g, const T* x, const T* shift, T* by_g,
                 T* by_x) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      by_g[i] += g[r * n + i];
      by_x[i] += g[r * n + i] * (x[r * n + i] - shift[i]);
    }
  }
}

template <typename T>
void column_combine(std::int64_t rows, std::int64_t n, const T* g, const T* x, const T* shift,
                    const T* a, const T* b, const T* c, T* dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      dx[r * n + i] = a[i] * g[r * n + i] + b[i] * (x[r * n + i] - shift[i]) + c[i];
    }
  }
}

template <typename T>
constexpr NormLoops<T> kNormLoops{
    .sum = &sum<T>,
    .moments = &moments<T>,
    .normalize = &normalize<T>,
    .map = &map<T>,
    .dots = &dots<T>,
    .combine = &combine<T>,
    .gather = &gather<T>,
    .column_sums = &column_sums<T>,
    .column_moments = &column_moments<T>,
    .column_map = &column_map<T>,
    .column_dots = &column_dots<T>,
    .column_combine = &column_combine<T>,
};

const NormLoops<float>* find_norm_loops_f32() {
  return &kNormLoops<float>;
}
const NormLoops<double>* find_norm_loops_f64() {
  return &kNormLoops<double>;
}

}  // namespace
}  // namespace dl::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dl::kernels::cpu {

HWY_EXPORT(find_norm_loops_f32);
HWY_EXPORT(find_norm_loops_f64);

template <>
const NormLoops<float>& norm_loops<float>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_norm_loops_f32)();
}
template <>
const NormLoops<double>& norm_loops<double>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_norm_loops_f64)();
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
