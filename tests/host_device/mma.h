// nvcuda::wmma of the host device: products of 16 x 16 x 16 by a warp, in the place of CUDA's
// mma.h.
//
// The first thread of a warp has the whole fragment and does its work; the others' calls do
// nothing. So what another thread reads of a stored fragment without a barrier is not there yet.
// Its steps are not counted (kernel.h), because a real warp shares them. Addresses and distances
// are checked as the documentation asks for.
#pragma once

#define __CUDA_MMA_H__

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/tensor/half.h"
#include "tests/host_device/runtime.h"

#if defined(__clang__)
#define DL_UNCOUNTED __attribute__((noinline, no_sanitize("coverage")))
#else
#define DL_UNCOUNTED __attribute__((noinline, no_sanitize_coverage))
#endif

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t : std::uint8_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
  static_assert(m == 16 && n == 16 && k == 16);
  static constexpr int num_elements = 256;
  float x[num_elements];
  // CUDA leaves it unwritten.
  fragment() {
    for (float& element : x) element = std::numeric_limits<float>::quiet_NaN();
  }
};

namespace detail {

DL_UNCOUNTED inline bool is_first() {
  return threadIdx.x % 32 == 0;
}

DL_UNCOUNTED inline void check(const void* data, unsigned step, std::size_t size) {
  if (reinterpret_cast<std::uintptr_t>(data) % 32 != 0 || step * size % 16 != 0) {
    dl::host_device::fail(dl::host_device::running_thread() +
                          " loads or stores a fragment that is not aligned");
  }
}

template <typename T>
DL_UNCOUNTED float to_float(const T& element) {
  if constexpr (std::is_same_v<T, float>) {
    return element;
  } else {
    using Mine = std::conditional_t<std::is_same_v<T, __half>, dl::Half, dl::BFloat16>;
    Mine mine;
    std::memcpy(&mine, &element, sizeof mine);
    return mine;
  }
}

}  // namespace detail

template <typename Fragment>
DL_UNCOUNTED void fill_fragment(Fragment& to, float value) {
  if (!detail::is_first()) return;
  for (float& element : to.x) element = value;
}

template <typename Use, typename T, typename Layout>
DL_UNCOUNTED void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, const T* from,
                                   unsigned step) {
  detail::check(from, step, sizeof(T));
  if (!detail::is_first()) return;
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 16; ++column) {
      const unsigned at =
          std::is_same_v<Layout, row_major> ? row * step + column : column * step + row;
      to.x[16 * row + column] = detail::to_float(from[at]);
    }
  }
}

DL_UNCOUNTED inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to,
                                          const float* from, unsigned step, layout_t) {
  detail::check(from, step, sizeof(float));
  if (!detail::is_first()) return;
  for (unsigned row = 0; row < 16; ++row) std::memcpy(&to.x[16 * row], from + row * step, 64);
}

DL_UNCOUNTED inline void store_matrix_sync(float* to,
                                           const fragment<accumulator, 16, 16, 16, float>& from,
                                           unsigned step, layout_t) {
  detail::check(to, step, sizeof(float));
  if (!detail::is_first()) return;
  for (unsigned row = 0; row < 16; ++row) std::memcpy(to + row * step, &from.x[16 * row], 64);
}

template <typename T, typename LayoutA, typename LayoutB>
DL_UNCOUNTED void mma_sync(fragment<accumulator, 16, 16, 16, float>& to,
                           const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
                           const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b,
                           const fragment<accumulator, 16, 16, 16, float>& c) {
  if (!detail::is_first()) return;
  float sums[256];
  std::memcpy(sums, c.x, sizeof sums);
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 16; ++column) {
        sums[16 * row + column] += a.x[16 * row + k] * b.x[16 * k + column];
      }
    }
  }
  std::memcpy(to.x, sums, sizeof sums);
}

}  // namespace nvcuda::wmma
