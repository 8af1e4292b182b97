// What the kernels of norm/ share. Device code only.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/norm/norm_kernels.h"

namespace dl::kernels::cuda {

// Elements of a thread that are summed in the compute type: those of a pack.
template <typename M>
inline constexpr int kMerged = merged_of(sizeof(M));

template <typename C>
__device__ C number_at(const Numbers& numbers, std::int64_t i, C otherwise) {
  if (numbers.data == nullptr) return otherwise;
  if (numbers.dtype == DType::kF64)
    return static_cast<C>(static_cast<const double*>(numbers.data)[i]);
  return static_cast<C>(load_as<float>(numbers.data, numbers.dtype, i));
}
__device__ inline void put_number(const Numbers& numbers, std::int64_t i, double value) {
  if (numbers.data != nullptr) store_double(numbers.data, numbers.dtype, i, value);
}

// Chan, Golub and LeVeque 1983.
__device__ inline Moments joined(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count;
  const double step = b.mean - a.mean;
  return {count, a.mean + step * (b.count / count),
          a.squares + b.squares + step * step * (a.count * b.count / count)};
}

// The numbers of a pack's elements, if `by_inner` divides by the elements of a channel.
template <typename M, int kCount>
__device__ void load_numbers(const Numbers& numbers, std::int64_t first_channel,
                             const FastDivisor& by_inner, const RowPack<kCount>& pack, M otherwise,
                             M (&values)[kCount]) {
  if (numbers.data == nullptr) {
    for (M& value : values) value = otherwise;
  } else if (by_inner.divisor() == 1 && (numbers.dtype == DType::kF64) == (sizeof(M) == 8)) {
    pack.load(numbers.data, numbers.dtype, first_channel, values, otherwise);
  } else {
    for (int k = 0; k < kCount; ++k) {
      const auto i = static_cast<std::uint32_t>(pack.at + k);
      values[k] = pack.has(k) ? number_at<M>(numbers, first_channel + by_inner.divide(i), otherwise)
                              : otherwise;
    }
  }
}

// The moments of a pack, computed in C.
template <typename C, typename M, int kCount>
__device__ Moments moments_in(const RowPack<kCount>& pack, const M (&values)[kCount]) {
  const int count = pack.end - pack.begin;
  if (count <= 0) return {0, 0, 0};
  C sum = 0;
  for (int k = 0; k < kCount; ++k) {
    if (pack.has(k)) sum += static_cast<C>(values[k]);
  }
  const C near = sum / static_cast<C>(count);
  C distances = 0;
  C squares = 0;
  for (int k = 0; k < kCount; ++k) {
    const C distance = pack.has(k) ? static_cast<C>(values[k]) - near : C(0);
    distances += distance;
    squares += distance * distance;
  }
  const double off = static_cast<double>(distances) / count;
  return {static_cast<double>(count), static_cast<double>(near) + off,
          static_cast<double>(squares) - static_cast<double>(distances) * off};
}

// Squares that f32 cannot hold, or not exactly enough, are computed in f64.
template <typename M, int kCount>
__device__ Moments moments_of(const RowPack<kCount>& pack, const M (&values)[kCount]) {
  const Moments moments = moments_in<M>(pack, values);
  if constexpr (std::is_same_v<M, float>) {
    if (moments.count > 0 && !(moments.squares > 1e-25 && moments.squares < 1e35)) {
      return moments_in<double>(pack, values);
    }
  }
  return moments;
}

// 1 / deviation with which f32 would overflow in a gradient, or lose too much.
template <typename M>
__device__ bool is_extreme(M scale) {
  if constexpr (std::is_same_v<M, double>) return false;
  return isfinite(scale) && (scale < M(0x1p-32) || scale > M(0x1p32));
}

// (x - mean) / deviation; `rest` is the rounding error of the mean.
template <typename C, typename M>
__device__ C normalised(M x, M mean, M scale, M rest) {
  return (static_cast<C>(x) - static_cast<C>(mean)) * static_cast<C>(scale) -
         static_cast<C>(rest) * static_cast<C>(scale);
}

struct Pair {
  double g;
  double x;
};
struct AddPairs {
  __device__ Pair operator()(const Pair& a, const Pair& b) const { return {a.g + b.g, a.x + b.x}; }
};
struct JoinMoments {
  __device__ Moments operator()(const Moments& a, const Moments& b) const { return joined(a, b); }
};

}  // namespace dl::kernels::cuda
