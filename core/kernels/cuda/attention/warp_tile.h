// WarpTile: 16 rows of a product of two matrices in shared memory, summed in f32 by one warp. f16,
// and bf16 from sm_80 on, use tensor cores (nvcuda::wmma); other elements and architectures the
// ordinary units. All threads of the warp must call a function. Device code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <type_traits>

#include "core/kernels/cuda/common/device_types.h"

namespace dl::kernels::cuda {

inline constexpr int kTileRows = 16;  // also the depth of a step

// How a matrix lies in memory: one row behind another, or one column.
enum class Order : std::uint8_t { kRows, kColumns };

template <typename T>
inline constexpr bool kHasTensorCores =
#if defined(__CUDA_ARCH__)
    std::is_same_v<T, Half> || (std::is_same_v<T, BFloat16> && __CUDA_ARCH__ >= 800);
#else
    kIsHalfWidth<T>;
#endif

// Rows and columns are of the whole block's matrices; `step` is the distance of two rows, or of two
// columns, in elements. Addresses are multiples of 32 bytes, steps of 16 bytes.
template <typename T, int kColumns, bool kOnTensorCores = kHasTensorCores<T>>
class WarpTile {
  static_assert(kColumns % 16 == 0);
  using Element = std::conditional_t<std::is_same_v<T, Half>, __half, __nv_bfloat16>;
  template <Order order>
  using Layout =
      std::conditional_t<order == Order::kRows, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
  using Sums = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;

 public:
  __device__ WarpTile() {
    for (Sums& part : sums_) nvcuda::wmma::fill_fragment(part, 0.0f);
  }

  // Adds left right; left has 16 rows, right kColumns columns, and `depth` is a multiple of 16.
  template <Order left_order, Order right_order>
  __device__ void add_product(const T* left, int left_step, const T* right, int right_step,
                              int depth) {
    using nvcuda::wmma::fragment;
#pragma unroll 2
    for (int k = 0; k < depth; k += 16) {
      fragment<nvcuda::wmma::matrix_a, 16, 16, 16, Element, Layout<left_order>> a;
      load(a, left + (left_order == Order::kRows ? k : k * left_step), left_step);
#pragma unroll
      for (int i = 0; i < kColumns / 16; ++i) {
        fragment<nvcuda::wmma::matrix_b, 16, 16, 16, Element, Layout<right_order>> b;
        const int at =
            right_order == Order::kRows ? k * right_step + 16 * i : 16 * i * right_step + k;
        load(b, right + at, right_step);
        nvcuda::wmma::mma_sync(sums_[i], a, b, sums_[i]);
      }
    }
  }

  // Multiplies row r by factors[16 r], ..., factors[16 r + 15], which are equal.
  __device__ void scale_rows(const float* factors) {
    Sums by;
    nvcuda::wmma::load_matrix_sync(by, factors, 16, nvcuda::wmma::mem_row_major);
#pragma unroll
    for (Sums& part : sums_) {
      for (int i = 0; i < part.num_elements; ++i) part.x[i] *= by.x[i];
    }
  }

  __device__ void store(float* to, int step) const {
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      nvcuda::wmma::store_matrix_sync(to + 16 * i, sums_[i], static_cast<unsigned>(step),
                                      nvcuda::wmma::mem_row_major);
    }
  }

 private:
  template <typename Fragment>
  __device__ static void load(Fragment& fragment, const T* from, int step) {
    nvcuda::wmma::load_matrix_sync(fragment, reinterpret_cast<const Element*>(from),
                                   static_cast<unsigned>(step));
  }

  Sums sums_[kColumns / 16];
};

// Each thread has every fourth row and every eighth column.
template <typename T, int kColumns>
class WarpTile<T, kColumns, false> {
  static_assert(kColumns % 8 == 0);
  static constexpr int kRowsOfThread = kTileRows / 4;
  static constexpr int kColumnsOfThread = kColumns / 8;

 public:
  __device__ WarpTile() {
    for (auto& row : sums_) {
      for (float& sum : row) sum = 0;
    }
  }

  template <Order left_order, Order right_order>
  __device__ void add_product(const T* left, int left_step, const T* right, int right_step,
                              int depth) {
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
      float a[kRowsOfThread];
#pragma unroll
      for (int r = 0; r < kRowsOfThread; ++r) {
        a[r] = wide(
            left[left_order == Order::kRows ? row(r) * left_step + k : k * left_step + row(r)]);
      }
#pragma unroll
      for (int c = 0; c < kColumnsOfThread; ++c) {
        const float b = wide(right[right_order == Order::kRows ? k * right_step + column(c)
                                                               : column(c) * right_step + k]);
#pragma unroll
        for (int r = 0; r < kRowsOfThread; ++r) sums_[r][c] += a[r] * b;
      }
    }
  }

  __device__ void scale_rows(const float* factors) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      for (float& sum : sums_[r]) sum *= factors[16 * row(r)];
    }
  }

  __device__ void store(float* to, int step) const {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      for (int c = 0; c < kColumnsOfThread; ++c) to[row(r) * step + column(c)] = sums_[r][c];
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int row(int r) { return lane() / 8 + 4 * r; }
  __device__ static int column(int c) { return lane() % 8 + 8 * c; }

  float sums_[kRowsOfThread][kColumnsOfThread];
};

}  // namespace dl::kernels::cuda
