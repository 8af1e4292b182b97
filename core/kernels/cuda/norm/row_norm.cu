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
__device__ RowPacks<kMerged<M>> packs_of_row(const RowShape& shape, const Row& row,
                                             const void* data) {
  return packs_of<kMerged<M>>(data, static_cast<int>(size_of(shape.dtype)), row.first,
                              row.present ? shape.width : 0);
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    row_norm_kernel(RowShape shape, const void* x, void* y, M* stats) {
  __shared__ Moments shared[kGroupThreads];
  const std::uint32_t number = row_number(shape);
  const Row row = row_of(shape, number);
  const auto packs = packs_of_row<M>(shape, row, x);
  Moments moments{0, 0, 0};
  packs.for_each(shape.lines, [&](const auto& pack) {
    M values[pack.kCount];
    pack.load(x, shape.dtype, row.first, values);
    moments = joined(moments, moments_of(pack, values));
  });
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
  packs.for_each(shape.lines, [&](const auto& pack) {
    M values[pack.kCount];
    M weights[pack.kCount];
    M biases[pack.kCount];
    pack.load(x, shape.dtype, row.first, values);
    load_numbers(shape.weight, row.first_channel, shape.by_inner, pack, M(1), weights);
    load_numbers(shape.bias, row.first_channel, shape.by_inner, pack, M(0), biases);
    for (int k = 0; k < pack.kCount; ++k) {
      const M normal =
          in_f64 ? static_cast<M>((static_cast<double>(values[k]) - moments.mean) * exact_scale)
                 : normalised<M>(values[k], mean, scale, rest);
      values[k] = normal * weights[k] + biases[k];
    }
    pack.store(y, shape.dtype, row.first, values);
  });
}

// dx = scale (g weight - mean(g weight) - n mean(g weight n)); n is the normalised x.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    row_gradient_kernel(RowShape shape, const void* dy, const void* x, const M* stats, void* dx) {
  __shared__ Pair shared[kGroupThreads];
  const std::uint32_t number = row_number(shape);
  const Row row = row_of(shape, number);
  const auto packs = packs_of_row<M>(shape, row, x);
  if (row.present) stats += 3 * std::int64_t{number};
  const M mean = row.present ? stats[0] : M(0);
  const M scale = row.present ? stats[1] : M(0);
  const M rest = row.present ? stats[2] : M(0);
  const bool in_f64 = is_extreme(scale);
  const auto load = [&](const auto& pack, M(&g)[kMerged<M>], M(&values)[kMerged<M>]) {
    M weights[pack.kCount];
    pack.load(dy, shape.dtype, row.first, g);
    load_numbers(shape.weight, row.first_channel, shape.by_inner, pack, M(1), weights);
    for (int k = 0; k < pack.kCount; ++k) g[k] = pack.has(k) ? g[k] * weights[k] : M(0);
    pack.load(x, shape.dtype, row.first, values);
  };
  Pair total{0, 0};
  packs.for_each(shape.lines, [&](const auto& pack) {
    M g[pack.kCount];
    M values[pack.kCount];
    load(pack, g, values);
    M by_g = 0;
    M by_x = 0;
    for (int k = 0; k < pack.kCount; ++k) {
      if (!pack.has(k)) continue;
      by_g += g[k];
      if (in_f64) {
        total.x += static_cast<double>(g[k]) * normalised<double>(values[k], mean, scale, rest);
      } else {
        by_x += g[k] * normalised<M>(values[k], mean, scale, rest);
      }
    }
    total = AddPairs()(total, {static_cast<double>(by_g), static_cast<double>(by_x)});
  });
  total = shape.lines.combine(total, shared, AddPairs());
  const double of_g = shape.centered ? total.g / shape.width : 0;
  const double of_x = total.x / shape.width;
  const M narrow_g = static_cast<M>(of_g);
  const M narrow_x = static_cast<M>(of_x);
  packs.for_each(shape.lines, [&](const auto& pack) {
    M g[pack.kCount];
    M values[pack.kCount];
    load(pack, g, values);
    for (int k = 0; k < pack.kCount; ++k) {
      if (in_f64) {
        const double normal = normalised<double>(values[k], mean, scale, rest);
        values[k] = static_cast<M>(static_cast<double>(scale) *
                                   (static_cast<double>(g[k]) - of_g - normal * of_x));
      } else {
        values[k] =
            scale * (g[k] - narrow_g - normalised<M>(values[k], mean, scale, rest) * narrow_x);
      }
    }
    pack.store(dx, shape.dtype, row.first, values);
  });
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
