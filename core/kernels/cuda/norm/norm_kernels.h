// Normalisation on plain memory. Half types are computed in f32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/fast_divisor.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Elements of a thread that are summed in the compute type, if they are as wide.
constexpr int merged_of(std::size_t width) {
  return width == 8 ? 4 : 8;
}

// Neighbouring channels that a thread sums, if they are the innermost dimension.
constexpr int across_of(std::size_t width) {
  return width == 8 ? 2 : 4;
}

// A batch whose channels are summed: [samples, channels, positions], or
// [samples, positions, channels].
struct BatchShape {
  DType dtype = DType::kF32;
  bool channels_last = false;
  std::uint32_t channels = 0;
  std::uint32_t count = 0;  // elements of a channel
  FastDivisor by_channels, by_positions;
  std::uint32_t packs = 0;  // of a channel (row_packs.h), as many in each of its planes
  FastDivisor by_packs;     // divides by the packs of a plane
  Lines lines{};
  // Each channel's sums are divided into `parts`, so that a few channels use the whole device.
  std::uint32_t parts = 1;

  // Whether a group of threads sums neighbouring channels, and the number of such groups.
  bool across() const { return channels_last && channels > 1; }
  std::uint32_t groups() const {
    const auto each = static_cast<std::uint32_t>(across() ? across_of(size_of(dtype)) : 1);
    return (channels + each - 1) / each;
  }
  DL_HOST_DEVICE std::int64_t numel() const { return std::int64_t{channels} * count; }
};

// A few numbers for each channel, or a scalar; `data` may be null.
struct Numbers {
  void* data = nullptr;
  DType dtype = DType::kF32;
};

// Squares: of the distances from the mean.
struct Moments {
  double count;
  double mean;
  double squares;
};
// Writes the moments of each part of each channel to partial [parts, channels].
void moments_launch(const BatchShape& shape, const void* x, Moments* partial, cudaStream_t stream);
// out [2, channels]: each channel's mean and squares.
void join_moments_launch(const BatchShape& shape, const Moments* partial, double* out,
                         cudaStream_t stream);

struct BatchStatsArgs {
  const Moments* partial = nullptr;  // null: the running statistics
  Numbers running_mean, running_var;
  Numbers weight, bias;
  double momentum = 0;
  double eps = 0;
  void* stats = nullptr;  // [3, channels], as batch_norm() of declared/norm.h saves them
  void* map = nullptr;    // [3, channels] in the type of the statistics: see map_launch()
};
void batch_stats_launch(const BatchShape& shape, const BatchStatsArgs& args, cudaStream_t stream);
// What follows a normalised value: the residual, which may be null, is added, and a ReLU applied.
struct AfterNorm {
  const void* residual = nullptr;
  bool relu = false;
};
// y = (x - map[0]) map[1] + map[2], each of the channel, and what follows.
void map_launch(const BatchShape& shape, const void* x, const void* map, const AfterNorm& after,
                void* y, cudaStream_t stream);
// gated = dy if y > 0, else 0
void relu_gate_launch(DType dtype, std::int64_t numel, const void* dy, const void* y, void* gated,
                      cudaStream_t stream);

// By which mean and deviation an element was normalised. Statistics of rows are [rows, 3], those of
// channels [3, channels]; the row of channel c of sample n is n groups + c / channels of a group.
struct SavedStats {
  const void* stats = nullptr;
  bool of_rows = false;
  std::uint32_t groups = 1;
  FastDivisor by_group;  // divides by the channels of a group
};
// For each part and channel, the sums of dy and of dy times the normalised x: [parts, channels, 2].
void gradient_sums_launch(const BatchShape& shape, const SavedStats& saved, const void* dy,
                          const void* x, double* partial, cudaStream_t stream);
struct BatchGradientArgs {
  const double* partial = nullptr;
  // Null, or [2 * channels + 1] in the place of `partial`, as batch_norm_backward() of
  // declared/norm.h takes it.
  const double* all_ranks = nullptr;
  const void* stats = nullptr;  // [3, channels]; null: rows were normalised, and only dweight and
                                // dbias are wanted
  Numbers weight, dweight, dbias;
  bool batch_statistics = true;
  // Both null, or for each channel the four numbers of gradient_launch(), in the type of the
  // statistics and in f64.
  void* by = nullptr;
  double* wide = nullptr;
};
void join_gradient_sums_launch(const BatchShape& shape, const BatchGradientArgs& args,
                               cudaStream_t stream);
// dx = by[1] dy + by[2] (x - by[0]) + by[3]. A channel whose by[0] is NaN is computed in f64 from
// `wide`. Without batch statistics x is not read.
void gradient_launch(const BatchShape& shape, const void* dy, const void* x, const void* by,
                     const double* wide, bool batch_statistics, void* dx, cudaStream_t stream);

struct RowShape {
  DType dtype = DType::kF32;
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;  // of a row
  std::uint32_t groups = 1;
  FastDivisor by_inner;  // divides by the elements of a row's channel
  double eps = 0;
  bool centered = true;
  Numbers weight, bias;
  Lines lines{};
};
void row_norm_launch(const RowShape& shape, const void* x, void* y, void* stats,
                     cudaStream_t stream);
void row_gradient_launch(const RowShape& shape, const void* dy, const void* x, const void* stats,
                         void* dx, cudaStream_t stream);

}  // namespace dl::kernels::cuda
