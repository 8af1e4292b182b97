// Iterates over a batch in blocks. A block is some rows of all channels (channels-last), or one
// channel of one sample (contiguous).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/args/norm_args.h"
#include "core/device/parallel.h"
#include "core/kernels/cpu/reduce/moments.h"
#include "core/tensor/half.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

inline constexpr std::int64_t kBatchNormGrain = 16 * 1024;  // elements worth a thread
inline constexpr std::int64_t kBlockElements = 4096;

inline std::int64_t rows_of(const BatchNormArgs& args) {
  return args.samples * args.positions;
}
// A channels-last batch; several rows of few channels are treated as one wide row, so that vectors
// are full.
struct WideRows {
  explicit WideRows(const BatchNormArgs& args) : channels(args.channels) {
    constexpr std::int64_t kWide = 64;
    if (channels > 0 && channels < kWide) {
      folded = std::lcm(channels, std::int64_t{16}) / channels;
      folded *= (kWide + folded * channels - 1) / (folded * channels);
    }
    width = folded * channels;
    at_once = std::max<std::int64_t>(kBlockElements / std::max<std::int64_t>(1, width), 8) * folded;
    count = rows_of(args);
    const std::int64_t blocks = (count + at_once - 1) / at_once;
    parts = std::clamp<std::int64_t>(blocks / kBlocksOfPart, 1, kMostParts);
    part_grain = std::max<std::int64_t>(
        1, kBatchNormGrain * parts / std::max<std::int64_t>(1, count * channels));
  }
  // The part's first row. Parts depend on the shape only, so that the number of threads does not
  // change the result.
  std::int64_t begin(std::int64_t part) const {
    return part == parts ? count : count / at_once * part / parts * at_once;
  }
  // visit(first row, wide rows, rows left over) for each block of [from, to).
  template <typename Visit>
  void for_each_block(std::int64_t from, std::int64_t to, const Visit& visit) const {
    for (std::int64_t r = from; r < to; r += at_once) {
      const std::int64_t rows = std::min(at_once, to - r);
      visit(r, rows / folded, rows % folded);
    }
  }
  // Repeats one number per channel over a wide row.
  template <typename T>
  std::vector<T> repeated(const T* numbers) const {
    std::vector<T> result(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < width; i += channels) {
      std::copy_n(numbers, channels, result.begin() + i);
    }
    return result;
  }
  // Folds the sums of a wide row into one row.
  template <typename T>
  void fold(std::vector<T>& sums) const {
    for (std::int64_t i = channels; i < width; i += channels) {
      for (std::int64_t c = 0; c < channels; ++c) {
        sums[static_cast<std::size_t>(c)] += sums[static_cast<std::size_t>(i + c)];
      }
    }
  }

  static constexpr std::int64_t kBlocksOfPart = 8;
  static constexpr std::int64_t kMostParts = 32;
  std::int64_t channels;
  std::int64_t folded = 1;  // rows of a wide row
  std::int64_t width = 0;
  std::int64_t at_once = 0;  // rows of a block
  std::int64_t count = 0;
  std::int64_t parts = 1;
  std::int64_t part_grain = 1;
};

inline std::int64_t channel_grain(const BatchNormArgs& args) {
  return kBatchNormGrain / std::max<std::int64_t>(1, rows_of(args)) + 1;
}

// A buffer for a block of `count` elements, if `wanted`.
template <typename T>
std::vector<T> block_memory(bool wanted, std::int64_t count) {
  return std::vector<T>(wanted ? static_cast<std::size_t>(count) : 0);
}

// Calls body<S>(), S: what the tensors hold, if T's column loops (norm_loops.h) can read it, else
// T. Undefined tensors do not count.
template <typename T, typename Body>
decltype(auto) visit_stored(std::initializer_list<const Tensor*> tensors, const Body& body) {
  const bool is_bf16 = std::ranges::all_of(tensors, [](const Tensor* tensor) {
    return !tensor->defined() || tensor->dtype() == DType::kBF16;
  });
  if constexpr (std::is_same_v<T, float>) {
    if (is_bf16) return body.template operator()<BFloat16>();
  }
  return body.template operator()<T>();
}

// visit(first element, count) for the blocks of channel c.
template <typename Visit>
void for_each_plane_block(const BatchNormArgs& args, std::int64_t c, const Visit& visit) {
  for (std::int64_t n = 0; n < args.samples; ++n) {
    const std::int64_t first = (n * args.channels + c) * args.positions;
    for (std::int64_t i = 0; i < args.positions; i += kBlockElements) {
      visit(first + i, std::min(kBlockElements, args.positions - i));
    }
  }
}

// body(c, memory of two blocks) for each channel.
template <typename T, typename Body>
void for_each_channel(const BatchNormArgs& args, const Body& body) {
  parallel_for(args.channels, channel_grain(args), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> memory(static_cast<std::size_t>(3 * kBlockElements));
    for (std::int64_t c = begin; c < end; ++c) body(c, memory.data());
  });
}

// The moments of each channel. Float32 is summed in float32 within blocks, or in float64 throughout
// if float32 would overflow or underflow. Defined in batch_moments.cc.
std::vector<Moments> moments_of(const BatchNormArgs& args, const Tensor& x);

}  // namespace dl::kernels::cpu
