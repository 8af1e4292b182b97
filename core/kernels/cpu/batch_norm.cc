// Normalisation of channels over a batch.
//
// A batch is walked in blocks: channels-last, some rows of all channels; otherwise one channel's
// places of one sample. Mean and squares are taken of each block while it is in the cache, and
// joined (Chan, Golub and LeVeque 1983), so that memory is read once.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/cpu/carried.h"
#include "core/kernels/cpu/norm.h"
#include "core/kernels/cpu/norm_loops.h"
#include "core/kernels/cpu/parts.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kBatchNormGrain = 16 * 1024;  // elements worth a thread
constexpr std::int64_t kBlockElements = 4096;

// One channel's elements so far.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // of the distances from the mean

  // The moments of `n` elements, from the sums of their distances from a rounded mean.
  static Moments about(double near_mean, double n, double distances, double squared_distances) {
    return {n, near_mean + distances / n, squared_distances - distances * distances / n};
  }
  void join(const Moments& other) {
    if (other.count == 0) return;
    const double both = count + other.count;
    const double apart = other.mean - mean;
    mean += apart * (other.count / both);
    squares += other.squares + apart * apart * (count * other.count / both);
    count = both;
  }
};

std::int64_t rows_of(const BatchNormArgs& args) {
  return args.samples * args.places;
}
std::int64_t rows_at_once(const BatchNormArgs& args) {
  return std::clamp<std::int64_t>(kBlockElements / std::max<std::int64_t>(1, args.channels), 8,
                                  256);
}
std::int64_t rows_grain(const BatchNormArgs& args) {
  return kBatchNormGrain / std::max<std::int64_t>(1, args.channels) + 1;
}
std::int64_t channel_grain(const BatchNormArgs& args) {
  return kBatchNormGrain / std::max<std::int64_t>(1, rows_of(args)) + 1;
}

// Room for a block of `count` elements, if `wanted`.
template <typename T>
std::vector<T> block_memory(bool wanted, std::int64_t count) {
  return std::vector<T>(wanted ? static_cast<std::size_t>(count) : 0);
}

template <typename T>
std::vector<Moments> moments_channels_last(const BatchNormArgs& args, const CarriedIn<T>& in) {
  const NormLoops<T>& loops = norm_loops<T>();
  const std::int64_t channels = args.channels;
  const auto size = static_cast<std::size_t>(channels);
  const std::int64_t at_once = rows_at_once(args);
  std::vector<std::vector<Moments>> parts(
      static_cast<std::size_t>(parts_of(rows_of(args), rows_grain(args))),
      std::vector<Moments>(size));
  parallel_parts(
      rows_of(args), rows_grain(args), [&](int part, std::int64_t begin, std::int64_t end) {
        std::vector<T> memory = block_memory<T>(in.is_converted(), at_once * channels);
        std::vector<T> means(size);
        std::vector<T> distances(size);
        std::vector<T> squares(size);
        std::vector<Moments>& mine = parts[static_cast<std::size_t>(part)];
        for (std::int64_t r = begin; r < end; r += at_once) {
          const std::int64_t rows = std::min(at_once, end - r);
          const T* const x = in.at(r * channels, rows * channels, memory.data());
          std::ranges::fill(means, T(0));
          std::ranges::fill(distances, T(0));
          std::ranges::fill(squares, T(0));
          loops.column_sums(rows, channels, x, means.data());
          for (T& mean : means) mean /= static_cast<T>(rows);
          loops.column_moments(rows, channels, x, means.data(), distances.data(), squares.data());
          for (std::size_t c = 0; c < size; ++c) {
            mine[c].join(Moments::about(static_cast<double>(means[c]), static_cast<double>(rows),
                                        static_cast<double>(distances[c]),
                                        static_cast<double>(squares[c])));
          }
        }
      });
  for (std::size_t part = 1; part < parts.size(); ++part) {
    for (std::size_t c = 0; c < size; ++c) parts[0][c].join(parts[part][c]);
  }
  return std::move(parts[0]);
}

// visit(first element, count) for the blocks of channel c.
template <typename Visit>
void for_each_plane_block(const BatchNormArgs& args, std::int64_t c, const Visit& visit) {
  for (std::int64_t n = 0; n < args.samples; ++n) {
    const std::int64_t first = (n * args.channels + c) * args.places;
    for (std::int64_t i = 0; i < args.places; i += kBlockElements) {
      visit(first + i, std::min(kBlockElements, args.places - i));
    }
  }
}

template <typename T>
Moments moments_of_channel(const BatchNormArgs& args, const CarriedIn<T>& in, std::int64_t c,
                           T* memory) {
  const NormLoops<T>& loops = norm_loops<T>();
  Moments result;
  for_each_plane_block(args, c, [&](std::int64_t first, std::int64_t count) {
    const T* const x = in.at(first, count, memory);
    const T mean = loops.sum(count, x) / static_cast<T>(count);
    T sums[2];
    loops.moments(count, x, mean, sums);
    result.join(Moments::about(static_cast<double>(mean), static_cast<double>(count),
                               static_cast<double>(sums[0]), static_cast<double>(sums[1])));
  });
  return result;
}

// body(c, memory of two blocks) for each channel.
template <typename T, typename Body>
void for_each_channel(const BatchNormArgs& args, const Body& body) {
  parallel_for(args.channels, channel_grain(args), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> memory(static_cast<std::size_t>(3 * kBlockElements));
    for (std::int64_t c = begin; c < end; ++c) body(c, memory.data());
  });
}

template <typename T>
std::vector<Moments> moments_of(const BatchNormArgs& args, const CarriedIn<T>& in) {
  if (args.channels_last) return moments_channels_last(args, in);
  std::vector<Moments> result(static_cast<std::size_t>(args.channels));
  for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
    result[static_cast<std::size_t>(c)] = moments_of_channel(args, in, c, memory);
  });
  return result;
}

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
void find_stats(const BatchNormArgs& args, const CarriedIn<T>& in, const Tensor& running_mean,
                const Tensor& running_var, const Tensor& stats) {
  T* const means = stats.data<T>();
  T* const scales = means + args.channels;
  T* const rests = scales + args.channels;
  if (!args.batch_statistics) {
    const CarriedAll<double> mean(running_mean);
    const CarriedAll<double> variance(running_var);
    for (std::int64_t c = 0; c < args.channels; ++c) {
      means[c] = static_cast<T>(mean.data()[c]);
      rests[c] = static_cast<T>(mean.data()[c] - static_cast<double>(means[c]));
      scales[c] = static_cast<T>(1 / std::sqrt(variance.data()[c] + args.eps));
    }
    return;
  }
  const std::vector<Moments> moments = moments_of(args, in);
  for (std::int64_t c = 0; c < args.channels; ++c) {
    Moments m = moments[static_cast<std::size_t>(c)];
    m.count = std::max(m.count, 1.0);  // a batch without values has the variance 0
    means[c] = static_cast<T>(m.mean);
    rests[c] = static_cast<T>(m.mean - static_cast<double>(means[c]));
    scales[c] = static_cast<T>(1 / std::sqrt(m.squares / m.count + args.eps));
    if (running_mean.defined()) move_towards(running_mean, c, m.mean, args.momentum);
    if (running_var.defined()) {
      move_towards(running_var, c, m.squares / (m.count - 1), args.momentum);
    }
  }
}

template <typename T>
void forward_batch(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                   const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                   const Tensor& y, const Tensor& stats) {
  const NormLoops<T>& loops = norm_loops<T>();
  const CarriedIn<T> in(x);
  const CarriedOut<T> out(y);
  find_stats(args, in, running_mean, running_var, stats);
  const CarriedAll<T> weights(weight);
  const CarriedAll<T> biases(bias);
  const T* const means = stats.data<T>();
  std::vector<T> scales(means + args.channels, means + 2 * args.channels);
  std::vector<T> adds(scales.size());
  for (std::int64_t c = 0; c < args.channels; ++c) {
    scales[static_cast<std::size_t>(c)] *= weights.get(c, T(1));
    adds[static_cast<std::size_t>(c)] =
        biases.get(c, T(0)) - means[2 * args.channels + c] * scales[static_cast<std::size_t>(c)];
  }
  if (!args.channels_last) {
    for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
      for_each_plane_block(args, c, [&](std::int64_t first, std::int64_t count) {
        T* const to = out.at(first, memory + kBlockElements);
        loops.map(count, in.at(first, count, memory), means[c], scales[static_cast<std::size_t>(c)],
                  adds[static_cast<std::size_t>(c)], to);
        out.done(first, count, to);
      });
    });
    return;
  }
  const std::int64_t channels = args.channels;
  const std::int64_t at_once = rows_at_once(args);
  parallel_for(rows_of(args), rows_grain(args), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> read = block_memory<T>(in.is_converted(), at_once * channels);
    std::vector<T> written = block_memory<T>(out.is_converted(), at_once * channels);
    for (std::int64_t r = begin; r < end; r += at_once) {
      const std::int64_t rows = std::min(at_once, end - r);
      T* const to = out.at(r * channels, written.data());
      loops.column_map(rows, channels, in.at(r * channels, rows * channels, read.data()), means,
                       scales.data(), adds.data(), to);
      out.done(r * channels, rows * channels, to);
    }
  });
}

// For each channel, sums over the batch of g and of g (x - mean).
struct BatchSums {
  std::vector<double> by_g;
  std::vector<double> by_x;
};

template <typename T>
BatchSums sums_channels_last(const BatchNormArgs& args, const CarriedIn<T>& dy,
                             const CarriedIn<T>& in, const T* means) {
  const NormLoops<T>& loops = norm_loops<T>();
  const std::int64_t channels = args.channels;
  const auto size = static_cast<std::size_t>(channels);
  const std::int64_t at_once = rows_at_once(args);
  std::vector<BatchSums> parts(static_cast<std::size_t>(parts_of(rows_of(args), rows_grain(args))),
                               BatchSums{std::vector<double>(size), std::vector<double>(size)});
  parallel_parts(
      rows_of(args), rows_grain(args), [&](int part, std::int64_t begin, std::int64_t end) {
        std::vector<T> g_memory = block_memory<T>(dy.is_converted(), at_once * channels);
        std::vector<T> x_memory = block_memory<T>(in.is_converted(), at_once * channels);
        std::vector<T> by_g(size);
        std::vector<T> by_x(size);
        BatchSums& mine = parts[static_cast<std::size_t>(part)];
        for (std::int64_t r = begin; r < end; r += at_once) {
          const std::int64_t rows = std::min(at_once, end - r);
          std::ranges::fill(by_g, T(0));
          std::ranges::fill(by_x, T(0));
          loops.column_dots(rows, channels, dy.at(r * channels, rows * channels, g_memory.data()),
                            in.at(r * channels, rows * channels, x_memory.data()), means,
                            by_g.data(), by_x.data());
          for (std::size_t c = 0; c < size; ++c) {
            mine.by_g[c] += static_cast<double>(by_g[c]);
            mine.by_x[c] += static_cast<double>(by_x[c]);
          }
        }
      });
  for (std::size_t part = 1; part < parts.size(); ++part) {
    for (std::size_t c = 0; c < size; ++c) {
      parts[0].by_g[c] += parts[part].by_g[c];
      parts[0].by_x[c] += parts[part].by_x[c];
    }
  }
  return std::move(parts[0]);
}

template <typename T>
BatchSums sums_of(const BatchNormArgs& args, const CarriedIn<T>& dy, const CarriedIn<T>& in,
                  const T* means) {
  if (args.channels_last) return sums_channels_last(args, dy, in, means);
  const NormLoops<T>& loops = norm_loops<T>();
  const auto size = static_cast<std::size_t>(args.channels);
  BatchSums result{std::vector<double>(size), std::vector<double>(size)};
  for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
    double by_g = 0;
    double by_x = 0;
    for_each_plane_block(args, c, [&](std::int64_t first, std::int64_t count) {
      T sums[2];
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
BatchSums sums_of_all_ranks(const BatchNormArgs& args, const T* scales) {
  const auto size = static_cast<std::size_t>(args.channels);
  const auto by_weight = args.sums_of_all.subspan(size);
  BatchSums result{{args.sums_of_all.begin(), by_weight.begin()}, std::vector<double>(size)};
  for (std::size_t c = 0; c < size; ++c) {
    result.by_x[c] = by_weight[c] / static_cast<double>(scales[c]);
  }
  return result;
}

// dx = a g + b (x - mean) + c for each channel.
template <typename T>
struct Combination {
  std::vector<T> a, b, c;
};

template <typename T>
Combination<T> combination_of(const BatchNormArgs& args, const BatchSums& sums,
                              const CarriedAll<T>& weights, const T* scales, const T* rests) {
  const auto size = static_cast<std::size_t>(args.channels);
  Combination<T> result{std::vector<T>(size), std::vector<T>(size), std::vector<T>(size)};
  const auto n = static_cast<double>(args.rows_of_all > 0 ? args.rows_of_all : rows_of(args));
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

template <typename T>
void write_gradient(const BatchNormArgs& args, const CarriedIn<T>& dy, const CarriedIn<T>& in,
                    const T* means, const Combination<T>& by, const Tensor& dx) {
  const NormLoops<T>& loops = norm_loops<T>();
  const CarriedOut<T> out(dx);
  const bool reads_x = args.batch_statistics;  // with fixed statistics, dx = a * g
  if (!args.channels_last) {
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
      });
    });
    return;
  }
  const std::int64_t channels = args.channels;
  const std::int64_t at_once = rows_at_once(args);
  parallel_for(rows_of(args), rows_grain(args), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> g_memory = block_memory<T>(dy.is_converted(), at_once * channels);
    std::vector<T> x_memory = block_memory<T>(in.is_converted(), at_once * channels);
    std::vector<T> written = block_memory<T>(out.is_converted(), at_once * channels);
    for (std::int64_t r = begin; r < end; r += at_once) {
      const std::int64_t rows = std::min(at_once, end - r);
      T* const to = out.at(r * channels, written.data());
      const T* const g = dy.at(r * channels, rows * channels, g_memory.data());
      if (reads_x) {
        loops.column_combine(rows, channels, g,
                             in.at(r * channels, rows * channels, x_memory.data()), means,
                             by.a.data(), by.b.data(), by.c.data(), to);
      } else {  // b is 0 everywhere
        loops.column_map(rows, channels, g, by.b.data(), by.a.data(), by.b.data(), to);
      }
      out.done(r * channels, rows * channels, to);
    }
  });
}

template <typename T>
void backward_batch(const BatchNormArgs& args, const Tensor& dy, const Tensor& x,
                    const Tensor& weight, const Tensor& stats, const Tensor& dx,
                    const Tensor& dweight, const Tensor& dbias) {
  const CarriedIn<T> gradient(dy);
  const CarriedIn<T> in(x);
  const T* const means = stats.data<T>();
  const T* const scales = means + args.channels;
  const T* const rests = scales + args.channels;
  BatchSums sums = args.sums_of_all.empty() ? sums_of(args, gradient, in, means)
                                            : sums_of_all_ranks(args, scales);
  for (std::size_t c = 0; args.sums_of_all.empty() && c < sums.by_x.size(); ++c) {
    sums.by_x[c] -= static_cast<double>(rests[c]) * sums.by_g[c];
  }
  if (dx.defined()) {
    const CarriedAll<T> weights(weight);
    write_gradient(args, gradient, in, means, combination_of(args, sums, weights, scales, rests),
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

template <typename T>
void moments_batch(const BatchNormArgs& args, const Tensor& x, const Tensor& moments) {
  auto* const out = moments.data<double>();
  const std::vector<Moments> found = moments_of(args, CarriedIn<T>(x));
  for (std::int64_t c = 0; c < args.channels; ++c) {
    out[c] = found[static_cast<std::size_t>(c)].mean;
    out[args.channels + c] = found[static_cast<std::size_t>(c)].squares;
  }
}

}  // namespace

void batch_moments(const BatchNormArgs& args, const Tensor& x, const Tensor& moments) {
  if (x.dtype() == DType::kF64) return moments_batch<double>(args, x, moments);
  moments_batch<float>(args, x, moments);
}

void batch_norm(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                const Tensor& y, const Tensor& stats) {
  if (x.dtype() == DType::kF64) {
    return forward_batch<double>(args, x, weight, bias, running_mean, running_var, y, stats);
  }
  forward_batch<float>(args, x, weight, bias, running_mean, running_var, y, stats);
}

void batch_norm_backward(const BatchNormArgs& args, const Tensor& dy, const Tensor& x,
                         const Tensor& weight, const Tensor& stats, const Tensor& dx,
                         const Tensor& dweight, const Tensor& dbias) {
  if (x.dtype() == DType::kF64) {
    return backward_batch<double>(args, dy, x, weight, stats, dx, dweight, dbias);
  }
  backward_batch<float>(args, dy, x, weight, stats, dx, dweight, dbias);
}

}  // namespace dl::kernels::cpu
