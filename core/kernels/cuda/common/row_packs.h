// Rows of elements in packs, so that the lanes of a group load and store 16 bytes at once. Device
// code, except for what precedes RowPack.
//
//   const auto packs = packs_of<M>(in, dtype, first, size);
//   packs.for_each(lines, [&](const auto& pack) {
//     M x[pack.kCount];
//     pack.load(in, dtype, first, x);
//     ... x[k] of the elements k that pack.has(k), the row's number pack.at + k ...
//     pack.store(out, dtype, first, x);
//   });
//
// The packs of a row begin at multiples of 16 bytes of its first operand, so that the first and the
// last pack may have fewer elements than the others. Elements are loaded and stored one at a time
// if the pack is not whole, if another operand is not aligned there, or if the row's elements are
// not neighbours.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/kernels/cuda/common/line_group.h"
#include "core/tensor/dtype.h"
#if defined(__CUDACC__)
#include "core/kernels/cuda/common/device_types.h"
#endif

namespace dl::kernels::cuda {

// The elements of a pack that are computed in M: 16 bytes of f16, bf16 and f64, two loads of f32.
// Integers are from 8 bytes of the shortest to four loads of the longest.
template <typename M>
inline constexpr int kRowPack = std::is_same_v<M, double> ? 2 : 8;

// lines_for() rows of a dtype.
inline Lines lines_of_packs(DType dtype, std::int64_t size, bool interleaved) {
  return lines_for(size, interleaved, dtype == DType::kF64 ? kRowPack<double> : kRowPack<float>);
}

// At most this many packs are in `size` elements.
template <int kPackElements>
constexpr std::int64_t packs_in(std::int64_t size) {
  return (size + 2 * (kPackElements - 1)) / kPackElements;
}

#if defined(__CUDACC__)
// One instruction for 16 bytes: ptxas may merge a plain store with that of single elements, and
// then emits neither as one.
template <typename T, int kCount>
__device__ inline void store_at_once(T* to, const Pack<T, kCount>& pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof pack == 16) {
    uint4 words;
    __builtin_memcpy(&words, &pack, sizeof words);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

template <int kPackElements>
struct RowPack {
  static constexpr int kCount = kPackElements;
  std::int64_t at;  // the number of element 0, which is negative in front of the row
  int begin, end;   // the elements that are in the row
  std::int64_t step;

  __device__ bool has(int k) const { return begin <= k && k < end; }

  // Loads the elements in their compute type. An element that is not in the row becomes
  // `otherwise`. `row` points to the row's element 0.
  template <typename T>
  __device__ void load(const T* row, Wide<T> (&values)[kCount],
                       Wide<T> otherwise = Wide<T>(0)) const {
    const T* const from = row + at * step;
    if (may_access_at_once(from)) {
      for (int i = 0; i < kCount; i += kAtOnce<T>) {
        const auto part = *reinterpret_cast<const Pack<T, kAtOnce<T>>*>(from + i);
        for (int k = 0; k < kAtOnce<T>; ++k) values[i + k] = wide(part.at[k]);
      }
      return;
    }
    for (int k = 0; k < kCount; ++k) values[k] = has(k) ? wide(from[k * step]) : otherwise;
  }
  template <typename T>
  __device__ void store(T* row, const Wide<T> (&values)[kCount]) const {
    T* const to = row + at * step;
    if (may_access_at_once(to)) {
      for (int i = 0; i < kCount; i += kAtOnce<T>) {
        Pack<T, kAtOnce<T>> part;
        for (int k = 0; k < kAtOnce<T>; ++k) part.at[k] = narrow<T>(values[i + k]);
        store_at_once(to + i, part);
      }
      return;
    }
    for (int k = 0; k < kCount; ++k) {
      if (has(k)) to[k * step] = narrow<T>(values[k]);
    }
  }

  // Elements of a dtype that is known at run time, as load_as() and store_as() have them. The row
  // begins at element `first`.
  template <typename M>
  __device__ void load(const void* data, DType dtype, std::int64_t first, M (&values)[kCount],
                       M otherwise = M(0)) const {
    with_stored<M>(dtype, [&]<typename T>() {
      if constexpr (std::is_same_v<Wide<T>, M>) {
        load(static_cast<const T*>(data) + first, values, otherwise);
      } else {
        T stored[kCount];
        load(static_cast<const T*>(data) + first, stored);
        for (int k = 0; k < kCount; ++k) values[k] = has(k) ? static_cast<M>(stored[k]) : otherwise;
      }
    });
  }
  template <typename M>
  __device__ void store(void* data, DType dtype, std::int64_t first,
                        const M (&values)[kCount]) const {
    static_assert(std::is_floating_point_v<M>);
    with_stored<M>(dtype, [&]<typename T>() { store(static_cast<T*>(data) + first, values); });
  }

 private:
  template <typename T>
  static constexpr int kAtOnce = kCount < kPackOf<T> ? kCount : kPackOf<T>;

  template <typename T>
  __device__ bool may_access_at_once(const T* element) const {
    return step == 1 && end - begin == kCount &&
           reinterpret_cast<std::uintptr_t>(element) % (sizeof(T) * kAtOnce<T>) == 0;
  }
};

template <int kPackElements>
struct RowPacks {
  std::int64_t size = 0;  // of the row
  std::int64_t step = 1;  // from one element to the next
  int lead = 0;           // elements of pack 0 that are in front of the row

  __device__ bool has(std::int64_t number) const { return number * kPackElements - lead < size; }
  __device__ RowPack<kPackElements> pack(std::int64_t number) const {
    const std::int64_t at = number * kPackElements - lead;
    const std::int64_t left = size - at;
    return {at, at < 0 ? static_cast<int>(-at) : 0,
            left < kPackElements ? static_cast<int>(left) : kPackElements, step};
  }
  // The packs of a lane.
  template <typename F>
  __device__ void for_each(const Lines& lines, const F& f) const {
    for (std::int64_t number = lines.lane(); has(number); number += lines.lanes) f(pack(number));
  }
};

// The packs of a row that begins at element `first`. `size` is 0 for a group without a row.
template <int kPackElements>
__device__ RowPacks<kPackElements> packs_of(const void* data, int width, std::int64_t first,
                                            std::int64_t size, std::int64_t step = 1) {
  const int bytes = width * kPackElements < 16 ? width * kPackElements : 16;
  const auto address =
      reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(first * width);
  return {size, step, size > 0 && step == 1 ? static_cast<int>(address % bytes) / width : 0};
}
template <typename M>
__device__ RowPacks<kRowPack<M>> packs_of(const void* data, DType dtype, std::int64_t first,
                                          std::int64_t size, std::int64_t step = 1) {
  return packs_of<kRowPack<M>>(data, static_cast<int>(size_of(dtype)), first, size, step);
}
#endif

}  // namespace dl::kernels::cuda
