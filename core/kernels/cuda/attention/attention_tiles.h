// What the kernels of attention share. Device code, but for the functions that launch.
//
// Tiles of queries meet tiles of keys in shared memory, so that memory holds no scores (Dao et al.
// 2022, "FlashAttention"). Each block owns its results and adds in a fixed order, so the bits do
// not depend on the launch; the gradient therefore has one kernel for the keys and one for the
// queries, which both compute the scores again.
#pragma once

#include <cstdint>

#include "core/kernels/cuda/attention/attention_kernels.h"
#include "core/kernels/cuda/attention/warp_tile.h"
#include "core/kernels/cuda/common/device_types.h"

namespace dl::kernels::cuda {

inline constexpr int kWarps = 4;
inline constexpr int kTileThreads = 32 * kWarps;
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// So many elements are between the rows of a tile, so that rows begin in different banks.
template <typename T>
inline constexpr int kSkew = 16 / static_cast<int>(sizeof(T));
inline constexpr int kScoreSkew = 8;

// How the warps of a block divide a result of kRows x kColumns: each has kTileRows rows from
// first_row() on, and kColumnsOfWarp columns from first_column() on.
template <int kRows, int kColumns>
struct Division {
  static constexpr int kColumnsOfWarp = kColumns * kRows / (kTileRows * kWarps);
  static_assert(kColumnsOfWarp % 16 == 0 && kRows % kTileRows == 0);
  static constexpr int kStrips = kRows / kTileRows;
  __device__ static int first_row() { return warp() % kStrips * kTileRows; }
  __device__ static int first_column() { return warp() / kStrips * kColumnsOfWarp; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x / 32); }
};

// The tiles of T elements in rows of up to kWidth elements.
template <typename T, int kWidth>
struct Tiles {
  static constexpr bool kNarrow =  // so that more rows fit into the shared memory
      kWidth * sizeof(T) <= 128;
  static constexpr int kStep = kWidth + kSkew<T>;
  template <int kRows>
  static constexpr int kBytes = kRows * kStep * static_cast<int>(sizeof(T));
};

// Calls run(row, column) for each pack of kRows rows of kWidth elements. All threads of the block
// share the work.
template <int kRows, int kWidth, typename T, typename Run>
__device__ void for_each_pack(const Run& run) {
  constexpr int kPacks = kWidth / kPackOf<T>;  // of a row
  static_assert(kRows * kPacks % kTileThreads == 0);
  for (int turn = 0; turn < kRows * kPacks / kTileThreads; ++turn) {
    const int i = turn * kTileThreads + static_cast<int>(threadIdx.x);
    run(i / kPacks, i % kPacks * kPackOf<T>);
  }
}

template <typename T>
__device__ T* head_of(const AttentionShape& shape, const HeadRows& rows, std::int64_t batch) {
  return static_cast<T*>(rows.data) + batch / shape.heads * rows.batch_step +
         batch % shape.heads * rows.head_step;
}

// Copies rows [first, first + kRows) of a head into shared memory; what is beyond its rows and its
// width becomes 0. All threads of the block must call it.
template <int kRows, int kWidth, typename T>
__device__ void load_rows(const AttentionShape& shape, const HeadRows& from, std::int64_t batch,
                          int first, int rows, T* to) {
  const T* const head = head_of<T>(shape, from, batch);
  using Elements = Pack<T, kPackOf<T>>;
  constexpr int kStep = Tiles<T, kWidth>::kStep;
  if (shape.in_packs) {
    return for_each_pack<kRows, kWidth, T>([&](int row, int column) {
      Elements pack{};
      if (first + row < rows && column < shape.width) {
        pack = *reinterpret_cast<const Elements*>(head + (first + row) * from.row_step + column);
      }
      *reinterpret_cast<Elements*>(to + row * kStep + column) = pack;
    });
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kWidth; i += kTileThreads) {
    const int row = i / kWidth;
    const int column = i % kWidth;
    const bool present = first + row < rows && column < shape.width;
    to[row * kStep + column] = present ? head[(first + row) * from.row_step + column] : T(0);
  }
}

// Writes kRows rows of sums, which the warps have stored with `kWidth + 4` between rows, times
// factor(row). All threads of the block must call it.
template <int kRows, int kWidth, typename T, typename Factor>
__device__ void store_rows(const AttentionShape& shape, const float* sums, const HeadRows& to,
                           std::int64_t batch, int first, int rows, const Factor& factor) {
  T* const head = head_of<T>(shape, to, batch);
  if (shape.in_packs) {
    return for_each_pack<kRows, kWidth, T>([&](int row, int column) {
      if (first + row >= rows || column >= shape.width) return;
      const float by = factor(row);
      Pack<T, kPackOf<T>> pack;
      for (int e = 0; e < kPackOf<T>; ++e) {
        pack.at[e] = narrow<T>(sums[row * (kWidth + 4) + column + e] * by);
      }
      *reinterpret_cast<Pack<T, kPackOf<T>>*>(head + (first + row) * to.row_step + column) = pack;
    });
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kWidth; i += kTileThreads) {
    const int row = i / kWidth;
    const int column = i % kWidth;
    if (first + row >= rows || column >= shape.width) continue;
    head[(first + row) * to.row_step + column] =
        narrow<T>(sums[row * (kWidth + 4) + column] * factor(row));
  }
}

// Which of elements first, ..., first + 3 of the shares dropout keeps, as bits. Not inlined: most
// calls of a kernel are without dropout.
static __device__ __noinline__ unsigned draw_four(const random::PhiloxSeed& seed, float keep,
                                                  std::int64_t first) {
  const auto shift = static_cast<int>(first % 4);
  unsigned bits = 0;
  for (int part = 0; part < (shift == 0 ? 1 : 2); ++part) {
    const random::PhiloxWords words =
        random::philox_block(seed, static_cast<std::uint64_t>(first / 4 + part));
    for (int w = 0; w < 4; ++w) {
      if (random::unit_float(words.word[w]) < keep) bits |= 1u << (4 * part + w);
    }
  }
  return bits >> shift & 0xf;
}

// For four neighbours in a row of the shares.
__device__ inline unsigned kept_of_four(const AttentionShape& shape, std::int64_t batch, int row,
                                        int column) {
  if (shape.keep >= 1) return 0xf;
  return draw_four(shape.seed, shape.keep, (batch * shape.queries + row) * shape.keys + column);
}

__device__ inline bool is_seen(const AttentionShape& shape, int row, int column) {
  return column < shape.keys && (!shape.causal || column <= row);
}

// Which elements of a tile of scores a thread computes: groups of four neighbours in one row.
template <int kQueries, int kKeys>
struct Mine {
  static constexpr int kLanes = kTileThreads / kQueries;  // of a row
  static constexpr int kGroups = kKeys / 4 / kLanes;
  static_assert(kGroups >= 1 && kKeys % (4 * kLanes) == 0);
  static constexpr int kStep = kKeys + kScoreSkew;
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static int column(int group) { return 4 * (group * kLanes + lane()); }
};

inline unsigned tiles_of(const AttentionShape& shape, int size, int tile) {
  return static_cast<unsigned>(shape.batches * ((size + tile - 1) / tile));
}

// Calls launch.operator()<T, kWidth>() with the narrowest tiles for the shape.
template <typename Launch>
void with_tiles(const AttentionShape& shape, const Launch& launch) {
  if (shape.dtype == DType::kF32) return launch.template operator()<float, 64>();
  const auto with_type = [&]<typename T>() {
    if (shape.width <= 64) return launch.template operator()<T, 64>();
    launch.template operator()<T, 128>();
  };
  if (shape.dtype == DType::kF16) return with_type.template operator()<Half>();
  with_type.template operator()<BFloat16>();
}

}  // namespace dl::kernels::cuda
