#include "core/kernels/cpu/norm/norm_loops.h"

#include <type_traits>

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/norm/norm_loops.cc"
#endif
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "core/kernels/cpu/common/bfloat16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dl::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The compiler vectorises these loops for each of Highway's targets. `omp simd` allows it to
// reorder sums.

// visit(accumulator, first element, vector tag) for n elements, with vectors that alternate between
// four accumulators, so that additions do not wait for each other.
template <typename T, typename Visit>
HWY_INLINE void for_each_of_four(std::int64_t n, const Visit& visit) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    visit(0, i, d);
    visit(1, i + lanes, d);
    visit(2, i + 2 * lanes, d);
    visit(3, i + 3 * lanes, d);
  }
  for (; i + lanes <= n; i += lanes) visit(0, i, d);
  for (; i < n; ++i) visit(4, i, hn::CappedTag<T, 1>());
}

// A sum in four vectors, and a scalar for the last elements.
template <typename T>
struct FourSums {
  using D = hn::ScalableTag<T>;
  HWY_INLINE FourSums() {
    for (auto& each : vectors) each = hn::Zero(D());
  }
  template <typename Tag>
  HWY_INLINE void add(int which, hn::Vec<Tag> x, Tag) {
    if constexpr (std::is_same_v<Tag, D>) {
      vectors[which] = hn::Add(vectors[which], x);
    } else {
      rest += hn::GetLane(x);
    }
  }
  // += x y
  template <typename Tag>
  HWY_INLINE void add_product(int which, hn::Vec<Tag> x, hn::Vec<Tag> y, Tag) {
    if constexpr (std::is_same_v<Tag, D>) {
      vectors[which] = hn::MulAdd(x, y, vectors[which]);
    } else {
      rest += hn::GetLane(hn::Mul(x, y));
    }
  }
  HWY_INLINE T total() const {
    const auto both = hn::Add(hn::Add(vectors[0], vectors[1]), hn::Add(vectors[2], vectors[3]));
    return hn::GetLane(hn::SumOfLanes(D(), both)) + rest;
  }
  hn::Vec<D> vectors[4];
  T rest = 0;
};

template <typename T>
T sum(std::int64_t n, const T* x) {
  FourSums<T> sums;
  for_each_of_four<T>(n, [&](int which, std::int64_t i, auto d)
                             HWY_ATTR { sums.add(which, hn::LoadU(d, x + i), d); });
  return sums.total();
}

template <typename T>
void moments(std::int64_t n, const T* x, T shift, T* sums) {
  FourSums<T> first;
  FourSums<T> second;
  for_each_of_four<T>(n, [&](int which, std::int64_t i, auto d) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift));
    first.add(which, distance, d);
    second.add_product(which, distance, distance, d);
  });
  sums[0] = first.total();
  sums[1] = second.total();
}

template <typename T>
void map(std::int64_t n, const T* x, T shift, T scale, T add, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale + add;
}

// The branches below differ in their loops, which clang-tidy does not see behind the pragmas.
// NOLINTBEGIN(bugprone-branch-clone)
template <bool kAdds, typename T>
HWY_INLINE void normalize_with(std::int64_t n, const T* x, T shift, T scale, T add, const T* weight,
                               const T* bias, T* y) {
  const auto normal = [=](T each) {
    return kAdds ? (each - shift) * scale + add : (each - shift) * scale;
  };
  if (weight != nullptr && bias != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = normal(x[i]) * weight[i] + bias[i];
  } else if (weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = normal(x[i]) * weight[i];
  } else if (bias != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = normal(x[i]) + bias[i];
  } else {
    map(n, x, shift, scale, add, y);
  }
}

template <typename T>
void normalize(std::int64_t n, const T* x, T shift, T scale, T add, const T* weight, const T* bias,
               T* y) {
  if (add == T(0)) {
    normalize_with<false>(n, x, shift, scale, add, weight, bias, y);
  } else {
    normalize_with<true>(n, x, shift, scale, add, weight, bias, y);
  }
}

template <typename T>
void dots(std::int64_t n, const T* g, const T* x, T shift, const T* weight, T* sums) {
  FourSums<T> by_g;
  FourSums<T> by_x;
  const auto visit = [&](int which, std::int64_t i, auto d, auto each) HWY_ATTR {
    by_g.add(which, each, d);
    by_x.add_product(which, each, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift)), d);
  };
  if (weight == nullptr) {
    for_each_of_four<T>(n, [&](int which, std::int64_t i, auto d)
                               HWY_ATTR { visit(which, i, d, hn::LoadU(d, g + i)); });
  } else {
    for_each_of_four<T>(n, [&](int which, std::int64_t i, auto d) HWY_ATTR {
      visit(which, i, d, hn::Mul(hn::LoadU(d, g + i), hn::LoadU(d, weight + i)));
    });
  }
  sums[0] = by_g.total();
  sums[1] = by_x.total();
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
// NOLINTEND(bugprone-branch-clone)

template <typename T>
void gather(std::int64_t n, const T* g, const T* x, T shift, T scale, T add, T* by_g, T* by_x) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    by_g[i] += g[i];
    by_x[i] += g[i] * ((x[i] - shift) * scale + add);
  }
}

// Processes a tile of columns down all rows at a time, so that the tile's sums stay in registers.
template <int kVectors, typename D>
struct Tile {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  static HWY_INLINE void load(const T* from, V (&to)[kVectors]) {
    for (int k = 0; k < kVectors; ++k) to[k] = hn::LoadU(D(), from + k * lanes());
  }
  template <typename S>
  static HWY_INLINE void store(const V (&from)[kVectors], S* to) {
    for (int k = 0; k < kVectors; ++k)
      kernels::HWY_NAMESPACE::store_floats(from[k], D(), to + k * lanes());
  }
  template <typename S>
  static HWY_INLINE V at(const S* from, int k) {
    return kernels::HWY_NAMESPACE::load_floats(D(), from + k * lanes());
  }
  static constexpr std::int64_t lanes() { return static_cast<std::int64_t>(hn::MaxLanes(D())); }
};

// visit(Tile(), first column) for tiles that cover n columns.
template <int kVectors, typename T, typename Visit>
HWY_INLINE void for_each_tile(std::int64_t n, const Visit& visit) {
  using D = hn::ScalableTag<T>;
  constexpr std::int64_t kLanes = Tile<1, D>::lanes();
  std::int64_t i = 0;
  for (; i + kVectors * kLanes <= n; i += kVectors * kLanes) visit(Tile<kVectors, D>(), i);
  for (; i + kLanes <= n; i += kLanes) visit(Tile<1, D>(), i);
  for (; i < n; ++i) visit(Tile<1, hn::CappedTag<T, 1>>(), i);
}

template <typename T, typename S>
void column_sums(std::int64_t rows, std::int64_t n, const S* x, T* sums) {
  for_each_tile<4, T>(
      n, [=]<int kVectors, typename D>(Tile<kVectors, D> tile, std::int64_t i) HWY_ATTR {
        hn::Vec<D> total[kVectors];
        tile.load(sums + i, total);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (int k = 0; k < kVectors; ++k)
            total[k] = hn::Add(total[k], tile.at(x + r * n + i, k));
        }
        tile.store(total, sums + i);
      });
}

template <typename T, typename S>
void column_moments(std::int64_t rows, std::int64_t n, const S* x, const T* shift, T* sums,
                    T* squares) {
  for_each_tile<4, T>(
      n, [=]<int kVectors, typename D>(Tile<kVectors, D> tile, std::int64_t i) HWY_ATTR {
        hn::Vec<D> from[kVectors], first[kVectors], second[kVectors];
        tile.load(shift + i, from);
        tile.load(sums + i, first);
        tile.load(squares + i, second);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (int k = 0; k < kVectors; ++k) {
            const auto d = hn::Sub(tile.at(x + r * n + i, k), from[k]);
            first[k] = hn::Add(first[k], d);
            second[k] = hn::MulAdd(d, d, second[k]);
          }
        }
        tile.store(first, sums + i);
        tile.store(second, squares + i);
      });
}

template <typename T, typename S>
void column_map(std::int64_t rows, std::int64_t n, const S* x, const T* shift, const T* scale,
                const T* add, S* y) {
  for_each_tile<4, T>(
      n, [=]<int kVectors, typename D>(Tile<kVectors, D> tile, std::int64_t i) HWY_ATTR {
        hn::Vec<D> from[kVectors], by[kVectors], plus[kVectors];
        tile.load(shift + i, from);
        tile.load(scale + i, by);
        tile.load(add + i, plus);
        for (std::int64_t r = 0; r < rows; ++r) {
          hn::Vec<D> result[kVectors];
          for (int k = 0; k < kVectors; ++k) {
            result[k] = hn::MulAdd(hn::Sub(tile.at(x + r * n + i, k), from[k]), by[k], plus[k]);
          }
          tile.store(result, y + r * n + i);
        }
      });
}

template <typename T, typename S>
void column_dots(std::int64_t rows, std::int64_t n, const S* g, const S* x, const T* shift, T* by_g,
                 T* by_x) {
  for_each_tile<4, T>(
      n, [=]<int kVectors, typename D>(Tile<kVectors, D> tile, std::int64_t i) HWY_ATTR {
        hn::Vec<D> from[kVectors], first[kVectors], second[kVectors];
        tile.load(shift + i, from);
        tile.load(by_g + i, first);
        tile.load(by_x + i, second);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (int k = 0; k < kVectors; ++k) {
            const auto each = tile.at(g + r * n + i, k);
            const auto d = hn::Sub(tile.at(x + r * n + i, k), from[k]);
            first[k] = hn::Add(first[k], each);
            second[k] = hn::MulAdd(each, d, second[k]);
          }
        }
        tile.store(first, by_g + i);
        tile.store(second, by_x + i);
      });
}

template <typename T, typename S>
void column_combine(std::int64_t rows, std::int64_t n, const S* g, const S* x, const T* shift,
                    const T* a, const T* b, const T* c, S* dx) {
  for_each_tile<2, T>(n, [=]<int kVectors, typename D>(Tile<kVectors, D> tile,
                                                       std::int64_t i) HWY_ATTR {
    hn::Vec<D> from[kVectors], by_g[kVectors], by_x[kVectors], plus[kVectors];
    tile.load(shift + i, from);
    tile.load(a + i, by_g);
    tile.load(b + i, by_x);
    tile.load(c + i, plus);
    for (std::int64_t r = 0; r < rows; ++r) {
      hn::Vec<D> result[kVectors];
      for (int k = 0; k < kVectors; ++k) {
        const auto d = hn::Sub(tile.at(x + r * n + i, k), from[k]);
        result[k] = hn::MulAdd(by_g[k], tile.at(g + r * n + i, k), hn::MulAdd(by_x[k], d, plus[k]));
      }
      tile.store(result, dx + r * n + i);
    }
  });
}

template <typename T>
void column_join(std::int64_t n, double rows, const T* near, const T* distances, const T* squares,
                 double before, double* mean, double* total) {
  const double of_rows = 1 / rows;
  const double share = rows / (before + rows);
  const double delta_weight = before * share;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const auto distance = static_cast<double>(distances[i]);
    const auto from = static_cast<double>(near[i]);
    const double delta = from + distance * of_rows - mean[i];
    // As in Moments::join(): for infinite means only the sum is known.
    const bool finite = std::isfinite(from) && std::isfinite(mean[i]);
    mean[i] += finite ? delta * share : from;
    total[i] += static_cast<double>(squares[i]) - distance * distance * of_rows +
                delta * delta * delta_weight;
  }
}

template <typename T>
void take_sums(std::int64_t n, T* sums, double* total) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    total[i] += static_cast<double>(sums[i]);
    sums[i] = 0;
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
    .column_join = &column_join<T>,
    .take_sums = &take_sums<T>,
};

template <typename T, typename S>
constexpr ColumnLoops<T, S> kColumnLoops{
    .sums = &column_sums<T, S>,
    .moments = &column_moments<T, S>,
    .map = &column_map<T, S>,
    .dots = &column_dots<T, S>,
    .combine = &column_combine<T, S>,
};

const ColumnLoops<float, float>* find_column_loops_f32() {
  return &kColumnLoops<float, float>;
}
const ColumnLoops<float, BFloat16>* find_column_loops_bf16() {
  return &kColumnLoops<float, BFloat16>;
}
const ColumnLoops<double, double>* find_column_loops_f64() {
  return &kColumnLoops<double, double>;
}
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
HWY_EXPORT(find_column_loops_f32);
HWY_EXPORT(find_column_loops_bf16);
HWY_EXPORT(find_column_loops_f64);

template <>
const NormLoops<float>& norm_loops<float>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_norm_loops_f32)();
}
template <>
const NormLoops<double>& norm_loops<double>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_norm_loops_f64)();
}
template <>
const ColumnLoops<float, float>& column_loops<float, float>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_column_loops_f32)();
}
template <>
const ColumnLoops<float, BFloat16>& column_loops<float, BFloat16>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_column_loops_bf16)();
}
template <>
const ColumnLoops<double, double>& column_loops<double, double>() noexcept {
  return *HWY_DYNAMIC_DISPATCH(find_column_loops_f64)();
}

}  // namespace dl::kernels::cpu
#endif  // HWY_ONCE
