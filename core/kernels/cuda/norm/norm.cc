// CUDA's normalisation.
#include "core/kernels/declared/norm.h"

#include <algorithm>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/norm/cudnn_norm.h"
#include "core/kernels/cuda/norm/norm_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

Numbers numbers_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.data = tensor.data_ptr(), .dtype = tensor.dtype()};
}

DType stats_dtype(DType dtype) {
  return dtype == DType::kF64 ? dtype : DType::kF32;
}

std::uint32_t narrow(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}
FastDivisor divisor(std::int64_t value) {
  return FastDivisor(narrow(std::max<std::int64_t>(1, value)));
}

void check_size(std::int64_t elements, std::string_view op) {
  DL_CHECK(elements <= kMostElements, kNotImplemented,
           "{}: an input of {} elements, CUDA's normalisation takes at most {}", op, elements,
           kMostElements);
}

// The channels of [samples, channels, positions] or [samples, positions, channels], as a few blocks
// for each multiprocessor.
BatchShape shape_of(const Tensor& x, std::int64_t samples, std::int64_t channels,
                    std::int64_t positions, bool channels_last, const Launch& launch) {
  BatchShape shape{.dtype = x.dtype(),
                   .channels_last = channels_last || positions == 1,
                   .channels = narrow(channels),
                   .count = narrow(samples * positions),
                   .by_channels = divisor(channels),
                   .by_positions = divisor(positions),
                   .by_packs = {}};
  const auto width = static_cast<std::int64_t>(size_of(x.dtype()));
  const int merged = merged_of(size_of(x.dtype()));
  const std::int64_t plane = shape.channels_last ? shape.count : positions;
  // Planes that do not begin at 16 bytes have less in their first pack.
  const bool aligned = is_aligned(x.data_ptr()) && plane * width % 16 == 0;
  const std::int64_t packs = (plane + (aligned ? 0 : 16 / width - 1) + merged - 1) / merged;
  shape.by_packs = divisor(packs);
  shape.packs = narrow(shape.channels_last ? packs : packs * samples);
  shape.lines = lines_for(shape.count, shape.across(), shape.across() ? 4 : merged);
  shape.parts = parts_for(shape.groups(), shape.count, shape.lines, 32, launch.sm_count());
  return shape;
}
BatchShape shape_of(const BatchNormArgs& args, const Tensor& x, const Launch& launch) {
  check_size(x.numel(), "batch_norm");
  return shape_of(x, args.samples, args.channels, args.positions, args.channels_last, launch);
}

std::size_t partial_bytes(const BatchShape& shape, std::size_t each) {
  return each * shape.parts * shape.channels;
}

RowShape shape_of(const RowNormArgs& args, const Tensor& x) {
  check_size(x.numel(), args.op);
  return {.dtype = x.dtype(),
          .rows = narrow(args.rows),
          .width = narrow(args.width()),
          .channels = narrow(args.channels),
          .groups = narrow(args.groups),
          .by_inner = divisor(args.inner),
          .eps = args.eps,
          .centered = args.centered,
          .weight = {},
          .bias = {},
          .lines = lines_of_packs(x.dtype(), args.width(), false)};
}

}  // namespace

void row_norm(const RowNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Tensor& y, const Tensor& stats) {
  if (args.rows == 0) return;
  const Launch launch;
  RowShape shape = shape_of(args, x);
  shape.weight = numbers_of(weight);
  shape.bias = numbers_of(bias);
  row_norm_launch(shape, x.data_ptr(), y.data_ptr(), stats.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("row_norm");
}

void row_norm_backward(const RowNormArgs& args, const Tensor& dy, const Tensor& x,
                       const Tensor& weight, const Tensor& stats, const Tensor& dx,
                       const Tensor& dweight, const Tensor& dbias) {
  const Launch launch;
  if (dx.defined() && args.rows > 0) {
    RowShape shape = shape_of(args, x);
    shape.weight = numbers_of(weight);
    row_gradient_launch(shape, dy.data_ptr(), x.data_ptr(), stats.data_ptr(), dx.data_ptr(),
                        launch.stream());
    DL_CUDA_LAUNCHED("row_norm_backward");
  }
  if ((!dweight.defined() && !dbias.defined()) || args.channels == 0) return;
  // The rows of all groups of a sample, one behind the other, are a sample of a batch.
  const BatchShape shape =
      shape_of(x, args.rows / args.groups, args.groups * args.channels, args.inner, false, launch);
  const Workspace partial(partial_bytes(shape, 2 * sizeof(double)), launch.stream());
  gradient_sums_launch(shape,
                       {.stats = stats.data_ptr(),
                        .of_rows = true,
                        .groups = narrow(args.groups),
                        .by_group = divisor(args.channels)},
                       dy.data_ptr(), x.data_ptr(), partial.as<double>(), launch.stream());
  join_gradient_sums_launch(shape,
                            {.partial = partial.as<double>(),
                             .weight = {},
                             .dweight = numbers_of(dweight),
                             .dbias = numbers_of(dbias)},
                            launch.stream());
  DL_CUDA_LAUNCHED("row_norm_backward");
}

void batch_moments(const BatchNormArgs& args, const Tensor& x, const Tensor& moments) {
  if (args.channels == 0) return;
  const Launch launch;
  const BatchShape shape = shape_of(args, x, launch);
  const Workspace partial(partial_bytes(shape, sizeof(Moments)), launch.stream());
  moments_launch(shape, x.data_ptr(), partial.as<Moments>(), launch.stream());
  join_moments_launch(shape, partial.as<Moments>(), moments.data<double>(), launch.stream());
  DL_CUDA_LAUNCHED("batch_moments");
}

namespace {

void normalise(const BatchNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Tensor& running_mean, const Tensor& running_var, const Tensor& residual,
               bool relu, const Tensor& y, const Tensor& stats) {
  if (args.channels == 0) return;
  if (cudnn_batch_norm(args, x, weight, bias, running_mean, running_var, residual, relu, y,
                       stats)) {
    return;
  }
  const Launch launch;
  const BatchShape shape = shape_of(args, x, launch);
  const std::size_t bytes = args.batch_statistics ? partial_bytes(shape, sizeof(Moments)) : 0;
  const Workspace partial(bytes, launch.stream());
  if (args.batch_statistics) {
    moments_launch(shape, x.data_ptr(), partial.as<Moments>(), launch.stream());
  }
  const Workspace map(3 * size_of(stats_dtype(x.dtype())) * shape.channels, launch.stream());
  batch_stats_launch(shape,
                     {.partial = partial.as<Moments>(),
                      .running_mean = numbers_of(running_mean),
                      .running_var = numbers_of(running_var),
                      .weight = numbers_of(weight),
                      .bias = numbers_of(bias),
                      .momentum = args.momentum,
                      .eps = args.eps,
                      .stats = stats.data_ptr(),
                      .map = map.data()},
                     launch.stream());
  if (x.numel() > 0) {
    map_launch(shape, x.data_ptr(), map.data(),
               {.residual = residual.defined() ? residual.data_ptr() : nullptr, .relu = relu},
               y.data_ptr(), launch.stream());
  }
  DL_CUDA_LAUNCHED("batch_norm");
}

void give_gradients(const BatchNormArgs& args, const void* dy, const Tensor& x,
                    const Tensor& weight, const Tensor& stats, const Tensor& all_ranks,
                    const Tensor& dx, const Tensor& dweight, const Tensor& dbias) {
  const bool divided = all_ranks.defined();
  const Launch launch;
  const BatchShape shape = shape_of(args, x, launch);
  const std::size_t bytes = divided ? 0 : partial_bytes(shape, 2 * sizeof(double));
  const Workspace partial(bytes, launch.stream());
  if (!divided) {
    gradient_sums_launch(shape, {.stats = stats.data_ptr(), .by_group = {}}, dy, x.data_ptr(),
                         partial.as<double>(), launch.stream());
  }
  const bool wants_dx = dx.defined() && dx.numel() > 0;
  const std::size_t numbers = wants_dx ? std::size_t{4} * shape.channels : 0;
  const Workspace by(size_of(stats_dtype(x.dtype())) * numbers, launch.stream());
  const Workspace wide(sizeof(double) * numbers, launch.stream());
  join_gradient_sums_launch(shape,
                            {.partial = partial.as<double>(),
                             .all_ranks = divided ? all_ranks.data<double>() : nullptr,
                             .stats = stats.data_ptr(),
                             .weight = numbers_of(weight),
                             .dweight = numbers_of(dweight),
                             .dbias = numbers_of(dbias),
                             .batch_statistics = args.batch_statistics,
                             .by = by.data(),
                             .wide = wide.as<double>()},
                            launch.stream());
  if (wants_dx) {
    gradient_launch(shape, dy, x.data_ptr(), by.data(), wide.as<double>(), args.batch_statistics,
                    dx.data_ptr(), launch.stream());
  }
  DL_CUDA_LAUNCHED("batch_norm_backward");
}

}  // namespace

void batch_norm(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                const Tensor& y, const Tensor& stats) {
  normalise(args, x, weight, bias, running_mean, running_var, {}, false, y, stats);
}

void batch_norm_relu(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& residual, const Tensor& y, const Tensor& stats) {
  normalise(args, x, weight, bias, running_mean, running_var, residual, true, y, stats);
}

void batch_norm_backward(const BatchNormArgs& args, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& stats, const Tensor& all_ranks,
                         const Tensor& dx, const Tensor& dweight, const Tensor& dbias) {
  if (args.channels == 0) return;
  if (!all_ranks.defined() &&
      cudnn_batch_norm_backward(args, dy, {}, x, weight, stats, {}, dx, dweight, dbias)) {
    return;
  }
  give_gradients(args, dy.data_ptr(), x, weight, stats, all_ranks, dx, dweight, dbias);
}

void batch_norm_relu_backward(const BatchNormArgs& args, const Tensor& dy, const Tensor& y,
                              const Tensor& x, const Tensor& weight, const Tensor& stats,
                              const Tensor& dresidual, const Tensor& dx, const Tensor& dweight,
                              const Tensor& dbias) {
  if (args.channels == 0) return;
  if (cudnn_batch_norm_backward(args, dy, y, x, weight, stats, dresidual, dx, dweight, dbias)) {
    return;
  }
  const Launch launch;
  const bool is_kept = dresidual.defined();
  const Workspace scratch(is_kept ? 0 : dy.nbytes(), launch.stream());
  void* const gated = is_kept ? dresidual.data_ptr() : scratch.data();
  if (dy.numel() > 0) {
    relu_gate_launch(dy.dtype(), dy.numel(), dy.data_ptr(), y.data_ptr(), gated, launch.stream());
    DL_CUDA_LAUNCHED("batch_norm_relu_backward");
  }
  give_gradients(args, gated, x, weight, stats, {}, dx, dweight, dbias);
}

}  // namespace dl::kernels::cuda
