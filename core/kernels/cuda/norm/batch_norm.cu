// Sums and maps over the channels of a batch: see norm_kernels.h.
#include "core/kernels/cuda/norm/norm_device.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

__device__ inline std::uint32_t channel_of(const BatchShape& shape, std::uint32_t element) {
  const std::uint32_t plane = shape.channels_last ? element : shape.by_positions.divide(element);
  return plane - shape.by_channels.divide(plane) * shape.channels;
}

// The channel of a thread's group, and the part of its packs.
struct Piece {
  bool present;
  std::uint32_t channel;
  std::uint32_t begin, end;
};
__device__ inline Piece piece_of(const BatchShape& shape) {
  const std::uint32_t c = blockIdx.x * shape.lines.lines() + shape.lines.line();
  const auto cut = [&](std::uint32_t part) {
    return static_cast<std::uint32_t>(std::uint64_t{shape.packs} * part / shape.parts);
  };
  return {c < shape.channels, c, cut(blockIdx.y), cut(blockIdx.y + 1)};
}

template <typename M>
struct PlanePack {
  RowPack<kMerged<M>> pack;  // may be empty
  std::int64_t first;        // the plane's first element
  std::uint32_t plane;
};
// Pack `number` of a channel; a plane is the channel of one sample, or of all if the last channel
// is the only one.
template <typename M>
__device__ PlanePack<M> pack_of(const BatchShape& shape, const void* x, std::uint32_t c,
                                std::uint32_t number) {
  const std::uint32_t plane = shape.by_packs.divide(number);
  const std::uint32_t positions = shape.by_positions.divisor();
  const std::int64_t first =
      shape.channels_last ? 0 : (std::int64_t{plane} * shape.channels + c) * positions;
  const auto packs = packs_of<kMerged<M>>(x, static_cast<int>(size_of(shape.dtype)), first,
                                          shape.channels_last ? shape.count : positions);
  return {packs.pack(number - plane * shape.by_packs.divisor()), first, plane};
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    moments_kernel(BatchShape shape, const void* x, Moments* partial) {
  __shared__ Moments shared[kGroupThreads];
  const Piece piece = piece_of(shape);
  Moments total{0, 0, 0};
  if (piece.present) {
    for (std::uint32_t i = piece.begin + shape.lines.lane(); i < piece.end;
         i += shape.lines.lanes) {
      const auto at = pack_of<M>(shape, x, piece.channel, i);
      M values[kMerged<M>];
      at.pack.load(x, shape.dtype, at.first, values);
      total = joined(total, moments_of(at.pack, values));
    }
  }
  total = shape.lines.combine(total, shared, JoinMoments());
  if (piece.present && shape.lines.lane() == 0) {
    partial[std::int64_t{blockIdx.y} * shape.channels + piece.channel] = total;
  }
}

// With channels last, a thread sums neighbouring channels, which it loads at once.
template <typename M>
inline constexpr int kAcross = across_of(sizeof(M));

// The channels of a thread's group, and the part of its rows.
template <typename M>
struct Columns {
  RowPack<kAcross<M>> channels;
  std::uint32_t begin, end;
};
template <typename M>
__device__ Columns<M> columns_of(const BatchShape& shape) {
  const RowPacks<kAcross<M>> packs{shape.channels};
  const std::int64_t number = result_of_group(shape.lines);
  const auto cut = [&](std::uint32_t part) {
    return static_cast<std::uint32_t>(std::uint64_t{shape.count} * part / shape.parts);
  };
  return {packs.pack(number), cut(blockIdx.y), packs.has(number) ? cut(blockIdx.y + 1) : 0};
}

// The moments of several channels do not fit into 64 registers.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks / 2)
    moments_across_kernel(BatchShape shape, const void* x, Moments* partial) {
  constexpr int kRows = 4;
  __shared__ Moments shared[kGroupThreads];
  const Columns<M> columns = columns_of<M>(shape);
  const std::uint32_t lanes = shape.lines.lanes;
  Moments totals[kAcross<M>] = {};
  for (std::uint32_t j = columns.begin + shape.lines.lane(); j < columns.end; j += kRows * lanes) {
    M values[kRows][kAcross<M>];
    RowPack<kRows> rows{0, 0, 0, 1};
    for (int r = 0; r < kRows; ++r) {
      const std::uint32_t row = j + r * lanes;
      if (row >= columns.end) continue;
      columns.channels.load(x, shape.dtype, std::int64_t{row} * shape.channels, values[r]);
      rows.end = r + 1;
    }
    for (int k = 0; k < kAcross<M>; ++k) {
      M column[kRows];
      for (int r = 0; r < kRows; ++r) column[r] = values[r][k];
      totals[k] = joined(totals[k], moments_of(rows, column));
    }
  }
  for (int k = 0; k < kAcross<M>; ++k) {
    const Moments total = shape.lines.combine(totals[k], shared, JoinMoments());
    if (!columns.channels.has(k) || shape.lines.lane() != 0) continue;
    partial[std::int64_t{blockIdx.y} * shape.channels + columns.channels.at + k] = total;
  }
}

// The moments of a group's channel. All threads of the block must call it.
__device__ inline Moments moments_of_channel(const BatchShape& shape, const Lines& lines,
                                             const Moments* partial, Moments* shared) {
  const std::int64_t c = result_of_group(lines);
  return joined_parts(
      lines, c < shape.channels ? shape.parts : 0, Moments{0, 0, 0}, shared,
      [&](std::uint32_t part) { return partial[std::int64_t{part} * shape.channels + c]; },
      JoinMoments());
}

__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    join_moments_kernel(BatchShape shape, Lines lines, const Moments* partial, double* out) {
  __shared__ Moments shared[kGroupThreads];
  const Moments moments = moments_of_channel(shape, lines, partial, shared);
  const std::int64_t c = result_of_group(lines);
  if (c >= shape.channels || lines.lane() != 0) return;
  out[c] = moments.mean;
  out[shape.channels + c] = moments.squares;
}

__device__ inline void move_towards(const Numbers& running, std::int64_t c, double value,
                                    double momentum) {
  put_number(running, c, (1 - momentum) * number_at<double>(running, c, 0) + momentum * value);
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    batch_stats_kernel(BatchShape shape, Lines lines, BatchStatsArgs args) {
  __shared__ Moments shared[kGroupThreads];
  Moments moments{0, 0, 0};
  if (args.partial != nullptr) {
    moments = moments_of_channel(shape, lines, args.partial, shared);
  }
  const std::int64_t c = result_of_group(lines);
  if (c >= shape.channels || lines.lane() != 0) return;
  double exact_mean = 0;
  double variance = 0;
  if (args.partial == nullptr) {
    exact_mean = number_at<double>(args.running_mean, c, 0);
    variance = number_at<double>(args.running_var, c, 1);
  } else {
    const double count = moments.count > 1 ? moments.count : 1;  // an empty batch has variance 0
    exact_mean = moments.mean;
    variance = moments.squares / count;
    move_towards(args.running_mean, c, exact_mean, args.momentum);
    move_towards(args.running_var, c, moments.squares / (count - 1), args.momentum);
  }
  const M mean = static_cast<M>(exact_mean);
  const M scale = static_cast<M>(1 / std::sqrt(variance + args.eps));
  const M rest = static_cast<M>(exact_mean - static_cast<double>(mean));
  M* const stats = static_cast<M*>(args.stats);
  stats[c] = mean;
  stats[shape.channels + c] = scale;
  stats[2 * std::int64_t{shape.channels} + c] = rest;
  M* const map = static_cast<M*>(args.map);
  const M by = scale * number_at<M>(args.weight, c, 1);
  map[c] = mean;
  map[shape.channels + c] = by;
  map[2 * std::int64_t{shape.channels} + c] = number_at<M>(args.bias, c, 0) - rest * by;
}

// Calls f(channel, element) for the elements of a thread, which are neighbours.
template <int kCount, typename F>
__device__ void for_each_element(const BatchShape& shape, std::int64_t first, const F& f) {
  for (int k = 0; k < kCount; ++k) {
    if (first + k >= shape.numel()) return;
    f(channel_of(shape, static_cast<std::uint32_t>(first + k)), first + k, k);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    map_kernel(BatchShape shape, const T* x, const Wide<T>* map, const T* residual, bool relu,
               bool aligned, T* y) {
  using M = Wide<T>;
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  const M* const scales = map + shape.channels;
  const M* const adds = scales + shape.channels;
  const bool whole = aligned && first + kCount <= shape.numel();
  Pack<T, kCount> pack{};
  Pack<T, kCount> added{};
  if (whole) {
    pack = *reinterpret_cast<const Pack<T, kCount>*>(x + first);
    if (residual != nullptr) added = *reinterpret_cast<const Pack<T, kCount>*>(residual + first);
  }
  for_each_element<kCount>(shape, first, [&](std::uint32_t c, std::int64_t at, int k) {
    M value = (wide(whole ? pack.at[k] : x[at]) - map[c]) * scales[c] + adds[c];
    if (residual != nullptr) value += wide(whole ? added.at[k] : residual[at]);
    if (relu && value <= 0) value = 0;  // NaN stays
    const T result = narrow<T>(value);
    if (whole) {
      pack.at[k] = result;
    } else {
      y[at] = result;
    }
  });
  if (whole) *reinterpret_cast<Pack<T, kCount>*>(y + first) = pack;
}

template <typename M>
struct RowOrChannel {
  M mean, scale, rest;
};
template <typename M>
__device__ RowOrChannel<M> stats_of(const BatchShape& shape, const SavedStats& saved,
                                    std::uint32_t c, std::uint32_t sample) {
  const M* stats = static_cast<const M*>(saved.stats);
  if (!saved.of_rows) {
    stats += c;
    const std::int64_t channels = shape.channels;
    return {stats[0], stats[channels], stats[2 * channels]};
  }
  stats += 3 * (std::int64_t{sample} * saved.groups + saved.by_group.divide(c));
  return {stats[0], stats[1], stats[2]};
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    gradient_sums_kernel(BatchShape shape, SavedStats saved, const void* dy, const void* x,
                         double* partial) {
  __shared__ Pair shared[kGroupThreads];
  const Piece piece = piece_of(shape);
  Pair total{0, 0};
  if (piece.present) {
    const bool many_samples = saved.of_rows && shape.channels_last;
    for (std::uint32_t i = piece.begin + shape.lines.lane(); i < piece.end;
         i += shape.lines.lanes) {
      const auto at = pack_of<M>(shape, x, piece.channel, i);
      M gs[kMerged<M>];
      M values[kMerged<M>];
      at.pack.load(dy, shape.dtype, at.first, gs);
      at.pack.load(x, shape.dtype, at.first, values);
      RowOrChannel<M> by{};
      if (!many_samples) by = stats_of<M>(shape, saved, piece.channel, at.plane);
      M by_g = 0;
      M by_x = 0;
      for (int k = 0; k < at.pack.kCount; ++k) {
        if (!at.pack.has(k)) continue;
        if (many_samples) {
          const auto j = static_cast<std::uint32_t>(at.pack.at + k);
          by = stats_of<M>(shape, saved, piece.channel, shape.by_positions.divide(j));
        }
        by_g += gs[k];
        if (is_extreme(by.scale)) {
          total.x += static_cast<double>(gs[k]) *
                     normalised<double>(values[k], by.mean, by.scale, by.rest);
        } else {
          by_x += gs[k] * normalised<M>(values[k], by.mean, by.scale, by.rest);
        }
      }
      total.g += static_cast<double>(by_g);
      total.x += static_cast<double>(by_x);
    }
  }
  total = shape.lines.combine(total, shared, AddPairs());
  if (!piece.present || shape.lines.lane() != 0) return;
  double* const to = partial + 2 * (std::int64_t{blockIdx.y} * shape.channels + piece.channel);
  to[0] = total.g;
  to[1] = total.x;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    gradient_sums_across_kernel(BatchShape shape, SavedStats saved, const void* dy, const void* x,
                                double* partial) {
  constexpr int kRows = 4;  // whose terms are added in the compute type
  __shared__ Pair shared[kGroupThreads];
  const Columns<M> columns = columns_of<M>(shape);
  const std::uint32_t lanes = shape.lines.lanes;
  const auto c = static_cast<std::uint32_t>(columns.channels.at);
  Pair totals[kAcross<M>] = {};
  for (std::uint32_t j = columns.begin + shape.lines.lane(); j < columns.end;) {
    M by_g[kAcross<M>] = {};
    M by_x[kAcross<M>] = {};
    for (int r = 0; r < kRows && j < columns.end; ++r, j += lanes) {
      const std::int64_t first = std::int64_t{j} * shape.channels;
      M gs[kAcross<M>];
      M values[kAcross<M>];
      columns.channels.load(dy, shape.dtype, first, gs);
      columns.channels.load(x, shape.dtype, first, values);
      const std::uint32_t sample = saved.of_rows ? shape.by_positions.divide(j) : 0;
      for (int k = 0; k < kAcross<M>; ++k) {
        if (!columns.channels.has(k)) continue;
        const RowOrChannel<M> by = stats_of<M>(shape, saved, c + k, sample);
        by_g[k] += gs[k];
        if (is_extreme(by.scale)) {
          totals[k].x += static_cast<double>(gs[k]) *
                         normalised<double>(values[k], by.mean, by.scale, by.rest);
        } else {
          by_x[k] += gs[k] * normalised<M>(values[k], by.mean, by.scale, by.rest);
        }
      }
    }
    for (int k = 0; k < kAcross<M>; ++k) {
      totals[k].g += static_cast<double>(by_g[k]);
      totals[k].x += static_cast<double>(by_x[k]);
    }
  }
  for (int k = 0; k < kAcross<M>; ++k) {
    const Pair total = shape.lines.combine(totals[k], shared, AddPairs());
    if (!columns.channels.has(k) || shape.lines.lane() != 0) continue;
    double* const to =
        partial + 2 * (std::int64_t{blockIdx.y} * shape.channels + columns.channels.at + k);
    to[0] = total.g;
    to[1] = total.x;
  }
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    join_gradient_sums_kernel(BatchShape shape, Lines lines, BatchGradientArgs args) {
  __shared__ Pair shared[kGroupThreads];
  const std::int64_t c = result_of_group(lines);
  const bool present = c < shape.channels;
  Pair total{0, 0};
  double count = shape.count;
  if (args.all_ranks == nullptr) {
    total = joined_parts(
        lines, present ? shape.parts : 0, total, shared,
        [&](std::uint32_t part) {
          const double* const from = args.partial + 2 * (std::int64_t{part} * shape.channels + c);
          return Pair{from[0], from[1]};
        },
        AddPairs());
  }
  if (!present || lines.lane() != 0) return;
  if (args.all_ranks != nullptr) {
    total = {args.all_ranks[c], args.all_ranks[shape.channels + c]};
    count = args.all_ranks[2 * std::int64_t{shape.channels}];
  }
  put_number(args.dbias, c, total.g);
  put_number(args.dweight, c, total.x);
  if (args.by == nullptr) return;
  const M* const stats = static_cast<const M*>(args.stats) + c;
  const M scale = stats[shape.channels];
  const auto exact = static_cast<double>(scale);
  double by[4] = {static_cast<double>(stats[0]), exact * number_at<double>(args.weight, c, 1), 0,
                  0};
  if (args.batch_statistics) {
    const double rest = static_cast<double>(stats[2 * std::int64_t{shape.channels}]);
    by[2] = -by[1] * exact * total.x / count;
    by[3] = -by[1] * total.g / count - by[2] * rest;
  }
  for (int k = 0; k < 4; ++k) {
    args.wide[4 * c + k] = by[k];
    static_cast<M*>(args.by)[4 * c + k] = static_cast<M>(by[k]);
  }
  if (args.batch_statistics && is_extreme(scale)) {
    static_cast<M*>(args.by)[4 * c] = static_cast<M>(std::nan(""));
  }
}

template <typename C, typename M>
__device__ M combined(const C* by, M g, M x) {
  return static_cast<M>(by[1] * static_cast<C>(g) + by[2] * (static_cast<C>(x) - by[0]) + by[3]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(BatchShape shape, const T* dy, const T* x, const Wide<T>* by,
                    const double* exact, bool reads_x, bool aligned, T* dx) {
  using M = Wide<T>;
  constexpr int kCount = kPackOf<T>;
  const std::int64_t first = thread_number() * kCount;
  const bool whole = aligned && first + kCount <= shape.numel();
  Pack<T, kCount> gs{};
  Pack<T, kCount> xs{};
  if (whole) {
    gs = *reinterpret_cast<const Pack<T, kCount>*>(dy + first);
    if (reads_x) xs = *reinterpret_cast<const Pack<T, kCount>*>(x + first);
  }
  for_each_element<kCount>(shape, first, [&](std::uint32_t c, std::int64_t at, int k) {
    const M g = wide(whole ? gs.at[k] : dy[at]);
    M value = by[4 * c + 1] * g;
    if (reads_x) {
      const M of_x = wide(whole ? xs.at[k] : x[at]);
      const bool in_f64 = by[4 * c] != by[4 * c];
      value = in_f64 ? combined(exact + 4 * c, g, of_x) : combined(by + 4 * c, g, of_x);
    }
    if (whole) {
      gs.at[k] = narrow<T>(value);
    } else {
      dx[at] = narrow<T>(value);
    }
  });
  if (whole) *reinterpret_cast<Pack<T, kCount>*>(dx + first) = gs;
}

dim3 grid_of(const BatchShape& shape) {
  return dim3(blocks_of_groups(shape.groups(), shape.lines), shape.parts);
}

Lines lines_of_parts(const BatchShape& shape) {
  return lines_for_parts(shape.parts, shape.channels);
}

template <typename T>
unsigned pack_blocks(const BatchShape& shape) {
  return blocks_for((shape.numel() + kPackOf<T> - 1) / kPackOf<T>);
}

}  // namespace

void moments_launch(const BatchShape& shape, const void* x, Moments* partial, cudaStream_t stream) {
  with_arithmetic(shape.dtype, [&]<typename M>() {
    if (shape.across()) {
      moments_across_kernel<M><<<grid_of(shape), kGroupThreads, 0, stream>>>(shape, x, partial);
    } else {
      moments_kernel<M><<<grid_of(shape), kGroupThreads, 0, stream>>>(shape, x, partial);
    }
  });
}

void join_moments_launch(const BatchShape& shape, const Moments* partial, double* out,
                         cudaStream_t stream) {
  const Lines lines = lines_of_parts(shape);
  join_moments_kernel<<<blocks_of_groups(shape.channels, lines), kGroupThreads, 0, stream>>>(
      shape, lines, partial, out);
}

void batch_stats_launch(const BatchShape& shape, const BatchStatsArgs& args, cudaStream_t stream) {
  const Lines lines = args.partial == nullptr ? Lines{.lanes = 1} : lines_of_parts(shape);
  with_arithmetic(shape.dtype, [&]<typename M>() {
    batch_stats_kernel<M>
        <<<blocks_of_groups(shape.channels, lines), kGroupThreads, 0, stream>>>(shape, lines, args);
  });
}

void map_launch(const BatchShape& shape, const void* x, const void* map, const AfterNorm& after,
                void* y, cudaStream_t stream) {
  const bool aligned = is_aligned(x) && is_aligned(y) && is_aligned(after.residual);
  with_element(shape.dtype, [&]<typename T>() {
    map_kernel<T><<<pack_blocks<T>(shape), kThreads, 0, stream>>>(
        shape, static_cast<const T*>(x), static_cast<const Wide<T>*>(map),
        static_cast<const T*>(after.residual), after.relu, aligned, static_cast<T*>(y));
  });
}

void gradient_sums_launch(const BatchShape& shape, const SavedStats& saved, const void* dy,
                          const void* x, double* partial, cudaStream_t stream) {
  with_arithmetic(shape.dtype, [&]<typename M>() {
    if (shape.across()) {
      gradient_sums_across_kernel<M>
          <<<grid_of(shape), kGroupThreads, 0, stream>>>(shape, saved, dy, x, partial);
    } else {
      gradient_sums_kernel<M>
          <<<grid_of(shape), kGroupThreads, 0, stream>>>(shape, saved, dy, x, partial);
    }
  });
}

void join_gradient_sums_launch(const BatchShape& shape, const BatchGradientArgs& args,
                               cudaStream_t stream) {
  const Lines lines = lines_of_parts(shape);
  with_arithmetic(shape.dtype, [&]<typename M>() {
    join_gradient_sums_kernel<M>
        <<<blocks_of_groups(shape.channels, lines), kGroupThreads, 0, stream>>>(shape, lines, args);
  });
}

void gradient_launch(const BatchShape& shape, const void* dy, const void* x, const void* by,
                     const double* exact, bool batch_statistics, void* dx, cudaStream_t stream) {
  const bool aligned = is_aligned(dy) && is_aligned(x) && is_aligned(dx);
  with_element(shape.dtype, [&]<typename T>() {
    gradient_kernel<T><<<pack_blocks<T>(shape), kThreads, 0, stream>>>(
        shape, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const Wide<T>*>(by),
        exact, batch_statistics, aligned, static_cast<T*>(dx));
  });
}

}  // namespace dl::kernels::cuda
