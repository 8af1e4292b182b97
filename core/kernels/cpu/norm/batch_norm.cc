// Normalisation of channels over a batch.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/converted.h"
#include "core/kernels/cpu/norm/batch_walk.h"
#include "core/kernels/cpu/norm/norm_loops.h"
#include "core/kernels/declared/norm.h"

namespace dl::kernels::cpu {
namespace {

// running = (1 - momentum) running + momentum value
void move_towards(const Tensor& running, std::int64_t c, double value, double momentum) {
  double before = 0;
  const auto size = static_cast<std::int64_t>(size_of(running.dtype()));
  char* const at = static_cast<char*>(running.data_ptr()) + c * size;
  load_as(running.dtype(), DType::kF64)(at, 1, &before, 1);
  const double after = (1 - momentum) * before + momentum * value;
  store_from(DType::kF64, running.dtype())(&after, at, 1, 1);
}

template <typename T>
void find_stats(const BatchNormArgs& args, const Tensor& x, const Tensor& running_mean,
                const Tensor& running_var, const Tensor& stats) {
  T* const means = stats.data<T>();
  T* const scales = means + args.channels;
  T* const rests = scales + args.channels;
  if (!args.batch_statistics) {
    const ConvertedTensor<double> mean(running_mean);
    const ConvertedTensor<double> variance(running_var);
    for (std::int64_t c = 0; c < args.channels; ++c) {
      means[c] = static_cast<T>(mean.data()[c]);
      rests[c] = static_cast<T>(mean.data()[c] - static_cast<double>(means[c]));
      scales[c] = static_cast<T>(1 / std::sqrt(variance.data()[c] + args.eps));
    }
    return;
  }
  const std::vector<Moments> moments = moments_of(args, x);
  for (std::int64_t c = 0; c < args.channels; ++c) {
    Moments m = moments[static_cast<std::size_t>(c)];
    m.count = std::max(m.count, 1.0);  // an empty batch has the variance 0
    means[c] = static_cast<T>(m.mean);
    rests[c] = static_cast<T>(m.mean - static_cast<double>(means[c]));
    scales[c] = static_cast<T>(1 / std::sqrt(m.squares / m.count + args.eps));
    if (running_mean.defined()) move_towards(running_mean, c, m.mean, args.momentum);
    if (running_var.defined()) {
      move_towards(running_var, c, m.squares / (m.count - 1), args.momentum);
    }
  }
}

// y = (x - shift) scale + add, with one number of each for each channel.
template <typename T, typename S>
void map_rows(const BatchNormArgs& args, const Tensor& from, const T* shift, const T* scale,
              const T* add, const Tensor& result) {
  const ConvertedInput<S> in(from);
  const ConvertedOutput<S> out(result);
  const ColumnLoops<T, S>& columns = column_loops<T, S>();
  const WideRows wide(args);
  const std::int64_t channels = args.channels;
  const std::vector<T> shifts = wide.repeated(shift);
  const std::vector<T> scales = wide.repeated(scale);
  const std::vector<T> adds = wide.repeated(add);
  parallel_for(wide.parts, wide.part_grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<S> read = block_memory<S>(in.is_converted(), wide.at_once * channels);
    std::vector<S> written = block_memory<S>(out.is_converted(), wide.at_once * channels);
    const auto block = [&](std::int64_t r, std::int64_t wide_rows, std::int64_t rest) {
      const std::int64_t first = r * channels;
      const std::int64_t count = wide_rows * wide.width + rest * channels;
      const S* const x = in.at(first, count, read.data());
      S* const to = out.at(first, written.data());
      columns.map(wide_rows, wide.width, x, shifts.data(), scales.data(), adds.data(), to);
      const std::int64_t done = wide_rows * wide.width;
      columns.map(rest, channels, x + done, shifts.data(), scales.data(), adds.data(), to + done);
      out.done(first, count, to);
      args.hooks.wrote(first, count);
    };
    wide.for_each_block(wide.begin(begin), wide.begin(end), block);
  });
}

template <typename T>
void map_channels_last(const BatchNormArgs& args, const Tensor& from, const T* shift,
                       const T* scale, const T* add, const Tensor& result) {
  visit_stored<T>({&from, &result},
                  [&]<typename S>() { map_rows<T, S>(args, from, shift, scale, add, result); });
}

template <typename T>
void forward_batch(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                   const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                   const Tensor& y, const Tensor& stats) {
  find_stats<T>(args, x, running_mean, running_var, stats);
  const ConvertedTensor<T> weights(weight);
  const ConvertedTensor<T> biases(bias);
  const T* const means = stats.data<T>();
  std::vector<T> scales(means + args.channels, means + 2 * args.channels);
  std::vector<T> adds(scales.size());
  for (std::int64_t c = 0; c < args.channels; ++c) {
    scales[static_cast<std::size_t>(c)] *= weights.get(c, T(1));
    adds[static_cast<std::size_t>(c)] =
        biases.get(c, T(0)) - means[2 * args.channels + c] * scales[static_cast<std::size_t>(c)];
  }
  if (!args.channels_last) {
    const NormLoops<T>& loops = norm_loops<T>();
    const ConvertedInput<T> in(x);
    const ConvertedOutput<T> out(y);
    for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
      for_each_plane_block(args, c, [&](std::int64_t first, std::int64_t count) {
        T* const to = out.at(first, memory + kBlockElements);
        loops.map(count, in.at(first, count, memory), means[c], scales[static_cast<std::size_t>(c)],
                  adds[static_cast<std::size_t>(c)], to);
        out.done(first, count, to);
        args.hooks.wrote(first, count);
      });
    });
    return;
  }
  map_channels_last<T>(args, x, means, scales.data(), adds.data(), y);
}

// For each channel, sums over the batch of g and of g (x - mean).
struct BatchSums {
  std::vector<double> by_g;
  std::vector<double> by_x;
};

template <typename T, typename S>
BatchSums sums_channels_last(const BatchNormArgs& args, const Tensor& gradient, const Tensor& input,
                             const T* means) {
  const ConvertedInput<S> dy(gradient);
  const ConvertedInput<S> in(input);
  const NormLoops<T>& loops = norm_loops<T>();
  const ColumnLoops<T, S>& columns = column_loops<T, S>();
  const WideRows wide(args);
  const std::int64_t channels = args.channels;
  const auto size = static_cast<std::size_t>(wide.width);
  const std::vector<T> shifts = wide.repeated(means);
  std::vector<BatchSums> parts(static_cast<std::size_t>(wide.parts));
  parallel_for(wide.parts, wide.part_grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<S> g_memory = block_memory<S>(dy.is_converted(), wide.at_once * channels);
    std::vector<S> x_memory = block_memory<S>(in.is_converted(), wide.at_once * channels);
    std::vector<T> by_g(size);
    std::vector<T> by_x(size);
    for (std::int64_t p = begin; p < end; ++p) {
      BatchSums& part = parts[static_cast<std::size_t>(p)];
      part = {std::vector<double>(size), std::vector<double>(size)};
      const auto block = [&](std::int64_t r, std::int64_t wide_rows, std::int64_t rest) {
        const std::int64_t done = wide_rows * wide.width;
        const std::int64_t count = done + rest * channels;
        args.hooks.reads(r * channels, count);
        const S* const g = dy.at(r * channels, count, g_memory.data());
        const S* const x = in.at(r * channels, count, x_memory.data());
        columns.dots(wide_rows, wide.width, g, x, shifts.data(), by_g.data(), by_x.data());
        columns.dots(rest, channels, g + done, x + done, shifts.data(), by_g.data(), by_x.data());
        loops.take_sums(wide.width, by_g.data(), part.by_g.data());
        loops.take_sums(wide.width, by_x.data(), part.by_x.data());
      };
      wide.for_each_block(wide.begin(p), wide.begin(p + 1), block);
      wide.fold(part.by_g);
      wide.fold(part.by_x);
    }
  });
  for (BatchSums& part : parts) {
    part.by_g.resize(static_cast<std::size_t>(channels));
    part.by_x.resize(static_cast<std::size_t>(channels));
    if (&part == parts.data()) continue;
    for (std::size_t c = 0; c < part.by_g.size(); ++c) {
      parts[0].by_g[c] += part.by_g[c];
      parts[0].by_x[c] += part.by_x[c];
    }
  }
  return std::move(parts[0]);
}

template <typename T>
BatchSums sums_of(const BatchNormArgs& args, const Tensor& gradient, const Tensor& input,
                  const T* means) {
  if (args.channels_last) {
    return visit_stored<T>({&gradient, &input}, [&]<typename S>() {
      return sums_channels_last<T, S>(args, gradient, input, means);
    });
  }
  const ConvertedInput<T> dy(gradient);
  const ConvertedInput<T> in(input);
  const NormLoops<T>& loops = norm_loops<T>();
  const auto size = static_cast<std::size_t>(args.channels);
  BatchSums result{std::vector<double>(size), std::vector<double>(size)};
  for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
    double by_g = 0;
    double by_x = 0;
    for_each_plane_block(args, c, [&](std::int64_t first, std::int64_t count) {
      T sums[2];
      args.hooks.reads(first, count);
      loops.dots(count, dy.at(first, count, memory), in.at(first, count, memory + kBlockElements),
                 means[c], nullptr, sums);
      by_g += static_cast<double>(sums[0]);
      by_x += static_cast<double>(sums[1]);
    });
    result.by_g[static_cast<std::size_t>(c)] = by_g;
    result.by_x[static_cast<std::size_t>(c)] = by_x;
  });
  return result;
}

template <typename T>
BatchSums sums_of_all_ranks(const Tensor& all_ranks, const T* scales) {
  const auto size = static_cast<std::size_t>(all_ranks.numel() / 2);
  const auto* const by_bias = all_ranks.data<double>();
  BatchSums result{{by_bias, by_bias + size}, std::vector<double>(size)};
  for (std::size_t c = 0; c < size; ++c) {
    result.by_x[c] = by_bias[size + c] / static_cast<double>(scales[c]);
  }
  return result;
}

// dx = a g + b (x - mean) + c for each channel.
template <typename T>
struct Combination {
  std::vector<T> a, b, c;
};

template <typename T>
Combination<T> combination_of(const BatchNormArgs& args, const BatchSums& sums, double n,
                              const ConvertedTensor<T>& weights, const T* scales, const T* rests) {
  const auto size = static_cast<std::size_t>(args.channels);
  Combination<T> result{std::vector<T>(size), std::vector<T>(size), std::vector<T>(size)};
  for (std::size_t c = 0; c < size; ++c) {
    const auto scale = static_cast<double>(scales[c]);
    const double a = scale * static_cast<double>(weights.get(static_cast<std::int64_t>(c), T(1)));
    result.a[c] = static_cast<T>(a);
    if (!args.batch_statistics) continue;
    result.b[c] = static_cast<T>(-a * scale * scale * sums.by_x[c] / n);
    const double of_rest = a * scale * scale * sums.by_x[c] / n * static_cast<double>(rests[c]);
    result.c[c] = static_cast<T>(of_rest - a * sums.by_g[c] / n);
  }
  return result;
}

template <typename T, typename S>
void combine_rows(const BatchNormArgs& args, const Tensor& gradient, const Tensor& input,
                  const T* means, const Combination<T>& by, const Tensor& dx) {
  const ConvertedInput<S> dy(gradient);
  const ConvertedInput<S> in(input);
  const ConvertedOutput<S> out(dx);
  const ColumnLoops<T, S>& columns = column_loops<T, S>();
  const WideRows wide(args);
  const std::int64_t channels = args.channels;
  const std::vector<T> shifts = wide.repeated(means);
  const std::vector<T> a = wide.repeated(by.a.data());
  const std::vector<T> b = wide.repeated(by.b.data());
  const std::vector<T> c = wide.repeated(by.c.data());
  parallel_for(wide.parts, wide.part_grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<S> g_memory = block_memory<S>(dy.is_converted(), wide.at_once * channels);
    std::vector<S> x_memory = block_memory<S>(in.is_converted(), wide.at_once * channels);
    std::vector<S> written = block_memory<S>(out.is_converted(), wide.at_once * channels);
    const auto block = [&](std::int64_t r, std::int64_t wide_rows, std::int64_t rest) {
      const std::int64_t first = r * channels;
      const std::int64_t done = wide_rows * wide.width;
      const std::int64_t count = done + rest * channels;
      const S* const g = dy.at(first, count, g_memory.data());
      const S* const x = in.at(first, count, x_memory.data());
      S* const to = out.at(first, written.data());
      columns.combine(wide_rows, wide.width, g, x, shifts.data(), a.data(), b.data(), c.data(), to);
      columns.combine(rest, channels, g + done, x + done, shifts.data(), a.data(), b.data(),
                      c.data(), to + done);
      out.done(first, count, to);
      args.hooks.wrote(first, count);
    };
    wide.for_each_block(wide.begin(begin), wide.begin(end), block);
  });
}

template <typename T>
void write_gradient(const BatchNormArgs& args, const Tensor& gradient, const Tensor& input,
                    const T* means, const Combination<T>& by, const Tensor& dx) {
  const bool reads_x = args.batch_statistics;  // with fixed statistics, dx = a * g
  if (!args.channels_last) {
    const NormLoops<T>& loops = norm_loops<T>();
    const ConvertedInput<T> dy(gradient);
    const ConvertedInput<T> in(input);
    const ConvertedOutput<T> out(dx);
    for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
      const auto i = static_cast<std::size_t>(c);
      for_each_plane_block(args, c, [&](std::int64_t first, std::int64_t count) {
        T* const to = out.at(first, memory + 2 * kBlockElements);
        const T* const g = dy.at(first, count, memory);
        if (reads_x) {
          loops.combine(count, g, in.at(first, count, memory + kBlockElements), means[c], nullptr,
                        by.a[i], by.b[i], by.c[i], to);
        } else {
          loops.map(count, g, T(0), by.a[i], T(0), to);
        }
        out.done(first, count, to);
        args.hooks.wrote(first, count);
      });
    });
    return;
  }
  if (!reads_x) {  // b is 0 everywhere
    return map_channels_last<T>(args, gradient, by.b.data(), by.a.data(), by.b.data(), dx);
  }
  visit_stored<T>({&gradient, &input, &dx},
                  [&]<typename S>() { combine_rows<T, S>(args, gradient, input, means, by, dx); });
}

template <typename T>
void backward_batch(const BatchNormArgs& args, const Tensor& dy, const Tensor& x,
                    const Tensor& weight, const Tensor& stats, const Tensor& all_ranks,
                    const Tensor& dx, const Tensor& dweight, const Tensor& dbias) {
  const ConvertedTensor<T> kept(stats);
  const T* const means = kept.data();
  const T* const scales = means + args.channels;
  const T* const rests = scales + args.channels;
  const bool divided = all_ranks.defined();
  BatchSums sums = divided ? sums_of_all_ranks(all_ranks, scales) : sums_of<T>(args, dy, x, means);
  for (std::size_t c = 0; !divided && c < sums.by_x.size(); ++c) {
    sums.by_x[c] -= static_cast<double>(rests[c]) * sums.by_g[c];
  }
  if (dx.defined()) {
    const ConvertedTensor<T> weights(weight);
    const double n =
        divided ? all_ranks.data<double>()[2 * args.channels] : static_cast<double>(rows_of(args));
    write_gradient<T>(args, dy, x, means, combination_of(args, sums, n, weights, scales, rests),
                      dx);
  }
  if (dbias.defined()) {
    store_from(DType::kF64, dbias.dtype())(sums.by_g.data(), dbias.data_ptr(), 1, args.channels);
  }
  if (!dweight.defined()) return;
  for (std::int64_t c = 0; c < args.channels; ++c) {
    sums.by_x[static_cast<std::size_t>(c)] *= static_cast<double>(scales[c]);
  }
  store_from(DType::kF64, dweight.dtype())(sums.by_x.data(), dweight.data_ptr(), 1, args.channels);
}

}  // namespace

void batch_norm(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                const Tensor& y, const Tensor& stats) {
  if (x.dtype() == DType::kF64) {
    return forward_batch<double>(args, x, weight, bias, running_mean, running_var, y, stats);
  }
  forward_batch<float>(args, x, weight, bias, running_mean, running_var, y, stats);
}

void batch_norm_backward(const BatchNormArgs& args, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& stats, const Tensor& all_ranks,
                         const Tensor& dx, const Tensor& dweight, const Tensor& dbias) {
  const auto is_extreme = [&] {
    const float* const scales = stats.data<float>() + args.channels;
    return std::any_of(scales, scales + args.channels, &is_extreme_scale);
  };
  if (x.dtype() == DType::kF64 || is_extreme()) {
    return backward_batch<double>(args, dy, x, weight, stats, all_ranks, dx, dweight, dbias);
  }
  backward_batch<float>(args, dy, x, weight, stats, all_ranks, dx, dweight, dbias);
}

}  // namespace dl::kernels::cpu
