// Normalisation of rows: layer_norm, group_norm, rms_norm.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/converted.h"
#include "core/kernels/cpu/norm/norm_loops.h"
#include "core/kernels/cpu/reduce/moments.h"
#include "core/kernels/declared/norm.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kRowNormGrain = 8 * 1024;   // elements worth a thread
constexpr std::int64_t kRunLength = 2048;          // of a sum in float32
constexpr std::int64_t kPartElements = 32 * 1024;  // with a sum for each channel
constexpr std::int64_t kMostParts = 16;

std::int64_t row_grain(const RowNormArgs& args) {
  return kRowNormGrain / std::max<std::int64_t>(1, args.width()) + 1;
}

// Computes block by block, each while it is in the cache.
template <typename T>
Moments moments_of_row(const NormLoops<T>& loops, std::int64_t n, const T* x) {
  Moments total;
  for (std::int64_t i = 0; i < n; i += kRunLength) {
    const std::int64_t count = std::min(kRunLength, n - i);
    const auto elements = static_cast<double>(count);
    const T near = static_cast<T>(static_cast<double>(loops.sum(count, x + i)) / elements);
    T sums[2];
    loops.moments(count, x + i, near, sums);
    const Moments of_block =
        Moments::about(static_cast<double>(near), elements, static_cast<double>(sums[0]),
                       static_cast<double>(sums[1]));
    if (count == n) return of_block;
    total.join(of_block);
  }
  return total;
}

template <typename T>
double squares_of_row(const NormLoops<T>& loops, std::int64_t n, const T* x) {
  double total = 0;
  for (std::int64_t i = 0; i < n; i += kRunLength) {
    T sums[2];
    loops.moments(std::min(kRunLength, n - i), x + i, T(0), sums);
    total += static_cast<double>(sums[1]);
  }
  return total;
}

// Two sums over a row, or over a channel of it: of g weight, and of g weight (x - shift).
struct Dots {
  double g = 0;
  double x = 0;
};

template <typename T>
Dots long_dots(const NormLoops<T>& loops, std::int64_t n, const T* g, const T* x, T shift,
               const T* weight) {
  Dots total;
  for (std::int64_t i = 0; i < n; i += kRunLength) {
    T sums[2];
    loops.dots(std::min(kRunLength, n - i), g + i, x + i, shift,
               weight == nullptr ? nullptr : weight + i, sums);
    total.g += static_cast<double>(sums[0]);
    total.x += static_cast<double>(sums[1]);
  }
  return total;
}

// A row's mean, as the nearest T and the rounding error, and 1 / deviation.
template <typename T>
struct RowStats {
  T mean;
  T scale;
  T rest;
};

// Rows that are computed in T; their statistics are saved as Kept.
template <typename T, typename Kept>
class RowNorm {
 public:
  RowNorm(const RowNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
          const Tensor& y, const Tensor& stats)
      : args_(args), from_(x), to_(y), weights_(weight), biases_(bias), kept_(stats.data<Kept>()) {}

  // Buffer of one row, for dtypes that are converted.
  std::vector<T> room() const {
    return std::vector<T>(
        static_cast<std::size_t>(from_.is_converted() || to_.is_converted() ? args_.width() : 0));
  }
  // Returns false if T is too narrow for the row.
  bool run(std::int64_t r, std::vector<T>& read, std::vector<T>& written) const {
    const std::int64_t width = args_.width();
    const T* const in = from_.at(r * width, width, read.data());
    const auto n = static_cast<double>(width);
    Moments moments;  // of all of the row's distances from 0, if it is not centered
    if (args_.centered) {
      moments = moments_of_row(loops_, width, in);
    } else {
      moments.squares = squares_of_row(loops_, width, in);
    }
    if (std::is_same_v<T, float> && is_too_narrow(moments.squares, n, args_.eps)) return false;
    const double variance = std::max(moments.squares, 0.0) / n;  // NaN stays NaN
    const T mean = static_cast<T>(moments.mean);
    const RowStats<T> stats{mean, static_cast<T>(1 / std::sqrt(variance + args_.eps)),
                            static_cast<T>(moments.mean - static_cast<double>(mean))};
    kept_[3 * r] = static_cast<Kept>(moments.mean);
    kept_[3 * r + 1] = static_cast<Kept>(stats.scale);
    kept_[3 * r + 2] = static_cast<Kept>(moments.mean - static_cast<double>(kept_[3 * r]));
    T* const out = to_.at(r * width, written.data());
    write(r % args_.groups * args_.channels, stats, in, out);
    to_.done(r * width, width, out);
    args_.hooks.wrote(r * width, width);
    return true;
  }

 private:
  void write(std::int64_t first, const RowStats<T>& stats, const T* in, T* out) const {
    // Below the rounding error of the largest results, unless the mean is many deviations away from
    // 0.
    const T rest = -stats.rest * stats.scale;
    const T add = std::abs(rest) < T(0x1p-26) ? T(0) : rest;
    if (args_.inner == 1) {
      loops_.normalize(args_.width(), in, stats.mean, stats.scale, add,
                       weights_.data() == nullptr ? nullptr : weights_.data() + first,
                       biases_.data() == nullptr ? nullptr : biases_.data() + first, out);
      return;
    }
    for (std::int64_t c = 0; c < args_.channels; ++c) {
      const T weight = weights_.get(first + c, T(1));
      loops_.map(args_.inner, in + c * args_.inner, stats.mean, stats.scale * weight,
                 add * weight + biases_.get(first + c, T(0)), out + c * args_.inner);
    }
  }

  const RowNormArgs& args_;
  const NormLoops<T>& loops_ = norm_loops<T>();
  ConvertedInput<T> from_;
  ConvertedOutput<T> to_;
  ConvertedTensor<T> weights_;
  ConvertedTensor<T> biases_;
  Kept* kept_;
};

template <typename T>
void forward_rows(const RowNormArgs& args, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Tensor& y, const Tensor& stats) {
  const RowNorm<T, T> rows(args, x, weight, bias, y, stats);
  std::atomic<bool> any_wide = false;
  std::vector<std::uint8_t> is_wide(static_cast<std::size_t>(args.rows));
  parallel_for(args.rows, row_grain(args), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> read = rows.room();
    std::vector<T> written = rows.room();
    for (std::int64_t r = begin; r < end; ++r) {
      args.hooks.reads(r * args.width(), args.width());
      if (rows.run(r, read, written)) continue;
      is_wide[static_cast<std::size_t>(r)] = 1;
      any_wide = true;
    }
  });
  if (!any_wide) return;
  const RowNorm<double, T> wide(args, x, weight, bias, y, stats);
  parallel_for(args.rows, row_grain(args), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> read = wide.room();
    std::vector<double> written = wide.room();
    for (std::int64_t r = begin; r < end; ++r) {
      if (is_wide[static_cast<std::size_t>(r)] != 0) wide.run(r, read, written);
    }
  });
}

// A thread's part of the sums over rows, for each channel of all groups.
template <typename T>
class ChannelSums {
 public:
  explicit ChannelSums(std::size_t channels) : by_g_(channels), by_x_(channels) {}
  double* by_g() { return by_g_.data(); }
  double* by_x() { return by_x_.data(); }
  void add(const ChannelSums& other) {
    for (std::size_t c = 0; c < by_g_.size(); ++c) {
      by_g_[c] += other.by_g_[c];
      by_x_[c] += other.by_x_[c];
    }
  }
  // Adds runs of sums in T, and clears them.
  void take(std::vector<T>& by_g, std::vector<T>& by_x) {
    for (std::size_t c = 0; c < by_g_.size(); ++c) {
      by_g_[c] += static_cast<double>(by_g[c]);
      by_x_[c] += static_cast<double>(by_x[c]);
    }
    std::ranges::fill(by_g, T(0));
    std::ranges::fill(by_x, T(0));
  }

 private:
  std::vector<double> by_g_;  // of g: the bias's gradient
  std::vector<double> by_x_;  // of g (x - mean) / deviation: the weight's
};

// Computes in T; the statistics were saved as Kept.
template <typename T, typename Kept>
class RowNormGradient {
 public:
  RowNormGradient(const RowNormArgs& args, const Tensor& dy, const Tensor& x, const Tensor& weight,
                  const Tensor& stats, const Tensor& dx)
      : args_(args),
        dy_(dy),
        x_(x),
        weights_(weight),
        kept_(stats.data<Kept>()),
        dx_(dx.defined() ? dx : dy),
        wants_dx_(dx.defined()) {}

  std::size_t channels() const { return static_cast<std::size_t>(args_.groups * args_.channels); }

  // Rows [begin, end): writes their gradients and adds to the sums.
  void run(std::int64_t begin, std::int64_t end, ChannelSums<T>& sums) const {
    constexpr std::int64_t kRowsAtOnce = 64;
    const std::int64_t width = args_.width();
    const auto room = [width](bool wanted) {
      return std::vector<T>(wanted ? static_cast<std::size_t>(width) : 0);
    };
    std::vector<T> g_memory = room(dy_.is_converted());
    std::vector<T> x_memory = room(x_.is_converted());
    std::vector<T> written = room(dx_.is_converted());
    std::vector<T> by_g(args_.inner == 1 ? channels() : 0);
    std::vector<T> by_x(by_g.size());
    for (std::int64_t r = begin; r < end; ++r) {
      args_.hooks.reads(r * width, width);
      const T* const g = dy_.at(r * width, width, g_memory.data());
      const T* const x = x_.at(r * width, width, x_memory.data());
      const std::int64_t first = r % args_.groups * args_.channels;
      const RowStats<T> stats = stats_of(r);
      Dots dots;
      if (args_.inner == 1) {
        dots = without_rest(long_dots(loops_, width, g, x, stats.mean, weights_from(first)), stats);
        loops_.gather(width, g, x, stats.mean, stats.scale, -stats.rest * stats.scale,
                      by_g.data() + first, by_x.data() + first);
        if ((r - begin) % kRowsAtOnce == kRowsAtOnce - 1) sums.take(by_g, by_x);
      } else {
        dots = channel_dots(stats, first, g, x, sums);
      }
      if (!wants_dx_) continue;
      T* const out = dx_.at(r * width, written.data());
      write_row(stats, first, g, x, dots, out);
      dx_.done(r * width, width, out);
      args_.hooks.wrote(r * width, width);
    }
    if (args_.inner == 1) sums.take(by_g, by_x);
  }

 private:
  RowStats<T> stats_of(std::int64_t r) const {
    return {static_cast<T>(kept_[3 * r]), static_cast<T>(kept_[3 * r + 1]),
            static_cast<T>(kept_[3 * r + 2])};
  }

  // Converts sums of distances from the rounded mean to sums of distances from the exact mean.
  static Dots without_rest(Dots dots, const RowStats<T>& stats) {
    return {dots.g, dots.x - static_cast<double>(stats.rest) * dots.g};
  }

  const T* weights_from(std::int64_t first) const {
    return weights_.data() == nullptr ? nullptr : weights_.data() + first;
  }

  Dots channel_dots(const RowStats<T>& stats, std::int64_t first, const T* g, const T* x,
                    ChannelSums<T>& sums) const {
    Dots total;
    for (std::int64_t c = 0; c < args_.channels; ++c) {
      const Dots of_channel = without_rest(long_dots<T>(loops_, args_.inner, g + c * args_.inner,
                                                        x + c * args_.inner, stats.mean, nullptr),
                                           stats);
      const auto weight = static_cast<double>(weights_.get(first + c, T(1)));
      total.g += weight * of_channel.g;
      total.x += weight * of_channel.x;
      sums.by_g()[first + c] += of_channel.g;
      sums.by_x()[first + c] += of_channel.x * static_cast<double>(stats.scale);
    }
    return total;
  }

  // dx = scale (g weight - mean(g weight) - (x - mean) scale^2 mean(g weight (x - mean)))
  void write_row(const RowStats<T>& stats, std::int64_t first, const T* g, const T* x,
                 const Dots& dots, T* out) const {
    const auto scale = static_cast<double>(stats.scale);
    const auto n = static_cast<double>(args_.width());
    const double exact_by_x = -scale * scale * scale * dots.x / n;
    const T by_x = static_cast<T>(exact_by_x);
    const T constant =
        args_.centered
            ? static_cast<T>(-scale * dots.g / n - exact_by_x * static_cast<double>(stats.rest))
            : T(0);
    if (args_.inner == 1) {
      loops_.combine(args_.width(), g, x, stats.mean, weights_from(first), stats.scale, by_x,
                     constant, out);
      return;
    }
    for (std::int64_t c = 0; c < args_.channels; ++c) {
      const std::int64_t at = c * args_.inner;
      const T by_g = stats.scale * weights_.get(first + c, T(1));
      loops_.combine(args_.inner, g + at, x + at, stats.mean, nullptr, by_g, by_x, constant,
                     out + at);
    }
  }

  const RowNormArgs& args_;
  const NormLoops<T>& loops_ = norm_loops<T>();
  ConvertedInput<T> dy_;
  ConvertedInput<T> x_;
  ConvertedTensor<T> weights_;
  const Kept* kept_;
  ConvertedOutput<T> dx_;
  bool wants_dx_;
};

void store_sums(const double* sums, const Tensor& out) {
  if (out.defined()) store_from(DType::kF64, out.dtype())(sums, out.data_ptr(), 1, out.numel());
}

template <typename T, typename Kept>
void backward_rows(const RowNormArgs& args, const Tensor& dy, const Tensor& x, const Tensor& weight,
                   const Tensor& stats, const Tensor& dx, const Tensor& dweight,
                   const Tensor& dbias) {
  const RowNormGradient<T, Kept> gradient(args, dy, x, weight, stats, dx);
  // Parts depend on the shape only, so that the number of threads does not change the result.
  const std::int64_t parts =
      std::clamp<std::int64_t>(args.rows * args.width() / kPartElements, 1,
                               std::min(kMostParts, std::max<std::int64_t>(1, args.rows)));
  std::vector<ChannelSums<T>> sums(static_cast<std::size_t>(parts),
                                   ChannelSums<T>(gradient.channels()));
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      gradient.run(args.rows * part / parts, args.rows * (part + 1) / parts,
                   sums[static_cast<std::size_t>(part)]);
    }
  });
  for (std::size_t part = 1; part < sums.size(); ++part) sums[0].add(sums[part]);
  store_sums(sums[0].by_x(), dweight);
  store_sums(sums[0].by_g(), dbias);
}

}  // namespace

void row_norm(const RowNormArgs& args, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Tensor& y, const Tensor& stats) {
  if (x.dtype() == DType::kF64) return forward_rows<double>(args, x, weight, bias, y, stats);
  forward_rows<float>(args, x, weight, bias, y, stats);
}

void row_norm_backward(const RowNormArgs& args, const Tensor& dy, const Tensor& x,
                       const Tensor& weight, const Tensor& stats, const Tensor& dx,
                       const Tensor& dweight, const Tensor& dbias) {
  if (x.dtype() == DType::kF64) {
    return backward_rows<double, double>(args, dy, x, weight, stats, dx, dweight, dbias);
  }
  const float* const kept = stats.data<float>();
  for (std::int64_t r = 0; r < args.rows; ++r) {
    if (!is_extreme_scale(kept[3 * r + 1])) continue;
    return backward_rows<double, float>(args, dy, x, weight, stats, dx, dweight, dbias);
  }
  backward_rows<float, float>(args, dy, x, weight, stats, dx, dweight, dbias);
}

}  // namespace dl::kernels::cpu
