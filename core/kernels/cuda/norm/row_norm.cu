// Normalisation of rows, which need not be long: see norm_kernels.h.
#include "core/kernels/cuda/norm/norm_device.h"

namespace dl::kernels::cuda {
namespace {

struct Row {
  bool present;
  std::int64_t first;           // its first element
  std::uint32_t first_channel;  // of its group
};
__device__ inline Row row_of(const RowShape& shape, std::uint32_t row) {
  return {row < shape.rows, std::int64_t{row} * shape.width, row % shape.groups * shape.channels};
}
__device__ inline std::uint32_t row_number(const RowShape& shape) {
  return blockIdx.x * shape.lines.lines() + shape.lines.line();
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    row_norm_kernel(RowShape shape, const void* x, void* y, M* stats) {
  __shared__ Moments shared[kGroupThreads];
  const std::uint32_t number = row_number(shape);
  const Row row = row_of(shape, number);
  const std::uint32_t end = row.present ? shape.width : 0;
  const std::uint32_t lanes = shape.lines.lanes;
  Moments moments{0, 0, 0};
  for (std::uint32_t i = shape.lines.lane(); i < end; i += kMerged * lanes) {
    M values[kMerged] = {};
    int count = 0;
    for (int k = 0; k < kMerged; ++k) {
      const std::uint32_t at = i + k * lanes;
      if (at >= end) continue;
      values[k] = load_as<M>(x, shape.dtype, row.first + at);
      ++count;
    }
    moments = joined(moments, moments_of(values, count));
  }
  moments = shape.lines.combine(moments, shared, JoinMoments());
  if (!row.present) return;
  if (!shape.centered) {
    moments.squares += moments.count * moments.mean * moments.mean;
    moments.mean = 0;
  }
  const double exact_scale =
      1 / std::sqrt((moments.squares > 0 ? moments.squares : moments.squares * 0) / shape.width +
                    shape.eps);
  const M mean = static_cast<M>(moments.mean);
  const M scale = static_cast<M>(exact_scale);
  const M rest = static_cast<M>(moments.mean - static_cast<double>(mean));
  if (shape.lines.lane() == 0) {
    stats[3 * std::int64_t{number}] = mean;
    stats[3 * std::int64_t{number} + 1] = scale;
    stats[3 * std::int64_t{number} + 2] = rest;
  }
  const bool in_f64 = std::is_same_v<M, float> && is_extreme(static_cast<float>(exact_scale));
  for (std::uint32_t i = shape.lines.lane(); i < end; i += lanes) {
    const std::int64_t c = row.first_channel + shape.by_inner.divide(i);
    const M value = load_as<M>(x, shape.dtype, row.first + i);
    const M normal = in_f64
                         ? static_cast<M>((static_cast<double>(value) - moments.mean) * exact_scale)
                         : normalised<M>(value, mean, scale, rest);
    store_as<M>(y, shape.dtype, row.first + i,
                normal * number_at<M>(shape.weight, c, 1) + number_at<M>(shape.bias, c, 0));
  }
}

// dx = scale (g weight - mean(g weight) - n mean(g weight n)); n is the normalised x.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    row_gradient_kernel(RowShape shape, const void* dy, const void* x, const M* stats, void* dx) {
  __shared__ Pair shared[kGroupThreads];
  const std::uint32_t number = row_number(shape);
  const Row row = row_of(shape, number);
  const std::uint32_t end = row.present ? shape.width : 0;
  const std::uint32_t lanes = shape.lines.lanes;
  if (row.present) stats += 3 * std::int64_t{number};
  const M mean = row.present ? stats[0] : M(0);
  const M scale = row.present ? stats[1] : M(0);
  const M rest = row.present ? stats[2] : M(0);
  const bool in_f64 = is_extreme(scale);
  const auto weighted = [&](std::uint32_t i) {
    const std::int64_t c = row.first_channel + shape.by_inner.divide(i);
    return load_as<M>(dy, shape.dtype, row.first + i) * number_at<M>(shape.weight, c, 1);
  };
  Pair total{0, 0};
  for (std::uint32_t i = shape.lines.lane(); i < end;) {
    M by_g = 0;
    M by_x = 0;
    for (int k = 0; k < kMerged && i < end; ++k, i += lanes) {
      const M g = weighted(i);
      const M value = load_as<M>(x, shape.dtype, row.first + i);
      by_g += g;
      if (in_f64) {
        total.x += static_cast<double>(g) * normalised<double>(value, mean, scale, rest);
      } else {
        by_x += g * normalised<M>(value, mean, scale, rest);
      }
    }
    total = AddPairs()(total, {static_cast<double>(by_g), static_cast<double>(by_x)});
  }
  total = shape.lines.combine(total, shared, AddPairs());
  const double of_g = shape.centered ? total.g / shape.width : 0;
  const double of_x = total.x / shape.width;
  const M narrow_g = static_cast<M>(of_g);
  const M narrow_x = static_cast<M>(of_x);
  for (std::uint32_t i = shape.lines.lane(); i < end; i += lanes) {
    const M g = weighted(i);
    const M value = load_as<M>(x, shape.dtype, row.first + i);
    M result;
    if (in_f64) {
      const double normal = normalised<double>(value, mean, scale, rest);
      result = static_cast<M>(static_cast<double>(scale) *
                              (static_cast<double>(g) - of_g - normal * of_x));
    } else {
      result = scale * (g - narrow_g - normalised<M>(value, mean, scale, rest) * narrow_x);
    }
    store_as<M>(dx, shape.dtype, row.first + i, result);
  }
}

unsigned blocks_of(const RowShape& shape) {
  const auto lines = static_cast<std::uint32_t>(shape.lines.lines());
  return (shape.rows + lines - 1) / lines;
}

}  // namespace

void row_norm_launch(const RowShape& shape, const void* x, void* y, void* stats,
                     cudaStream_t stream) {
  with_arithmetic(shape.dtype, [&]<typename M>() {
    row_norm_kernel<M>
        <<<blocks_of(shape), kGroupThreads, 0, stream>>>(shape, x, y, static_cast<M*>(stats));
  });
}

void row_gradient_launch(const RowShape& shape, const void* dy, const void* x, const void* stats,
                         void* dx, cudaStream_t stream) {
  with_arithmetic(shape.dtype, [&]<typename M>() {
    row_gradient_kernel<M><<<blocks_of(shape), kGroupThreads, 0, stream>>>(
        shape, dy, x, static_cast<const M*>(stats), dx);
  });
}

}  // namespace dl::kernels::cuda
