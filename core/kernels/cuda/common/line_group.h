// Groups of a block's threads: each line of a tensor is processed by `lanes` threads, a power of
// two, which then combine their partial results. Device code only.
//
// If a line is contiguous, neighbouring threads are lanes of one line, so that their loads coalesce
// along it. If neighbouring elements belong to different lines (a reduction over an outer
// dimension), neighbouring threads work on different lines (`interleaved`). Combining is a tree of
// fixed shape: the same bits on every run.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace dl::kernels::cuda {

inline constexpr int kGroupThreads = 256;
// As the second launch bound: so few blocks of 256 threads on a multiprocessor leave each thread 64
// registers. By default ptxas aims at 8 blocks, and spills what does not fit into 32 registers.
inline constexpr int kFewBlocks = 4;

// How a block is divided: lanes * lines == kGroupThreads. Plain data, made on the host.
struct Lines {
  int lanes = kGroupThreads;
  bool interleaved = false;  // neighbouring threads work on different lines

  __host__ __device__ int lines() const { return kGroupThreads / lanes; }
#if defined(__CUDACC__)
  __device__ int lane() const {
    const int thread = static_cast<int>(threadIdx.x);
    return interleaved ? thread / lines() : thread % lanes;
  }
  __device__ int line() const {
    const int thread = static_cast<int>(threadIdx.x);
    return interleaved ? thread % lines() : thread / lanes;
  }

  // Reduces with combine() over the group. All threads of the block must call it; each gets its
  // group's result. `shared` has kGroupThreads entries.
  template <typename T, typename Combine>
  __device__ T combine(T value, T* shared, const Combine& combine) const {
    const int at = lane() * lines() + line();
    __syncthreads();  // the previous results have been read
    shared[at] = value;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane() < half) shared[at] = combine(shared[at], shared[at + half * lines()]);
      __syncthreads();
    }
    return shared[line()];
  }
#endif
};

#if defined(__CUDACC__)
// For Lines::combine().
struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// The larger of two numbers, as combine() for Lines::combine(). NaN counts as the largest.
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};

// The result of a thread's group.
__device__ inline std::int64_t result_of_group(const Lines& lines) {
  return static_cast<std::int64_t>(blockIdx.x) * lines.lines() + lines.line();
}

// Joins part(0), part(1), ... of a group's result, `parts` of them; none for a group without a
// result. All threads of the block must call it. `shared` has kGroupThreads entries.
template <typename T, typename Part, typename Combine>
__device__ T joined_parts(const Lines& lines, std::uint32_t parts, T total, T* shared,
                          const Part& part, const Combine& combine) {
  for (std::uint32_t i = lines.lane(); i < parts; i += lines.lanes) total = combine(total, part(i));
  return lines.combine(total, shared, combine);
}

// combine() over this and all earlier threads of a block of kGroupThreads. All threads of the block
// must call it. `shared` has kGroupThreads entries.
template <typename T, typename Combine = Add>
__device__ T sum_up_to_this_thread(T value, T* shared, const Combine& combine = {}) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (int distance = 1; distance < kGroupThreads; distance *= 2) {
    __syncthreads();  // the sums of the last round have been read
    shared[thread] = value;
    __syncthreads();
    if (thread >= distance) value = combine(shared[thread - distance], value);
  }
  return value;
}
#endif

// For lines of `size` elements: enough lanes that none has more than a few, no more than a block.
// `each`: elements that a lane has at once.
inline Lines lines_for(std::int64_t size, bool interleaved, int each = 4) {
  Lines lines{.lanes = 1, .interleaved = interleaved};
  const int most = interleaved ? 8 : kGroupThreads;  // 32 neighbouring lines fill a load
  while (lines.lanes < most && std::int64_t{lines.lanes} * each < size) lines.lanes *= 2;
  return lines;
}

// For the parts of results, of which one part of all results stands behind another.
inline Lines lines_for_parts(std::uint32_t parts, std::int64_t results) {
  return lines_for(parts, results >= 32);
}
inline unsigned blocks_of_groups(std::int64_t results, const Lines& lines) {
  return static_cast<unsigned>((results + lines.lines() - 1) / lines.lines());
}

// The number of parts of each of `results` over `size` elements that gives a few blocks for each
// multiprocessor, if a lane has at least `least` elements.
inline std::uint32_t parts_for(std::int64_t results, std::int64_t size, const Lines& lines,
                               std::int64_t least, int multiprocessors) {
  const std::int64_t blocks =
      std::max<std::int64_t>(1, (results + lines.lines() - 1) / lines.lines());
  const std::int64_t wanted = 4 * static_cast<std::int64_t>(multiprocessors);
  const std::int64_t parts = std::min(wanted / blocks, size / (least * lines.lanes));
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(parts, 1, 1024));
}

}  // namespace dl::kernels::cuda
