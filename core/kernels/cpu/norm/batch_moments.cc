// The mean and the sum of squared distances from it, for each channel of a batch. Each block's
// moments are computed while it is in the cache, then merged (Chan, Golub and LeVeque 1983), so
// that memory is read once.

#include <algorithm>

#include "core/kernels/cpu/elementwise/converted.h"
#include "core/kernels/cpu/norm/batch_walk.h"
#include "core/kernels/cpu/norm/norm_loops.h"
#include "core/kernels/declared/norm.h"

namespace dl::kernels::cpu {
namespace {

template <typename T, typename S>
std::vector<Moments> moments_channels_last(const BatchNormArgs& args, const Tensor& tensor) {
  const ConvertedInput<S> in(tensor);
  struct Part {
    double count = 0;
    std::vector<double> means;
    std::vector<double> squares;
  };
  const NormLoops<T>& loops = norm_loops<T>();
  const ColumnLoops<T, S>& columns = column_loops<T, S>();
  const WideRows wide(args);
  const std::int64_t channels = args.channels;
  const auto size = static_cast<std::size_t>(channels);
  std::vector<Part> parts(static_cast<std::size_t>(wide.parts));
  parallel_for(wide.parts, wide.part_grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<S> memory = block_memory<S>(in.is_converted(), wide.at_once * channels);
    std::vector<T> sums(static_cast<std::size_t>(wide.width));
    std::vector<T> distances(sums.size());
    std::vector<T> squares(sums.size());
    std::vector<T> means;
    for (std::int64_t p = begin; p < end; ++p) {
      Part& part = parts[static_cast<std::size_t>(p)];
      part.means.resize(size);
      part.squares.resize(size);
      const auto block = [&](std::int64_t r, std::int64_t wide_rows, std::int64_t rest) {
        const std::int64_t rows = wide_rows * wide.folded + rest;
        const S* const x = in.at(r * channels, rows * channels, memory.data());
        const S* const last = x + wide_rows * wide.width;
        for (auto* each : {&sums, &distances, &squares}) std::ranges::fill(*each, T(0));
        columns.sums(wide_rows, wide.width, x, sums.data());
        columns.sums(rest, channels, last, sums.data());
        wide.fold(sums);
        for (std::size_t c = 0; c < size; ++c) sums[c] /= static_cast<T>(rows);
        if (wide.folded > 1) means = wide.repeated(sums.data());
        const T* const near = wide.folded > 1 ? means.data() : sums.data();
        columns.moments(wide_rows, wide.width, x, near, distances.data(), squares.data());
        columns.moments(rest, channels, last, near, distances.data(), squares.data());
        wide.fold(distances);
        wide.fold(squares);
        loops.column_join(channels, static_cast<double>(rows), near, distances.data(),
                          squares.data(), part.count, part.means.data(), part.squares.data());
        part.count += static_cast<double>(rows);
      };
      wide.for_each_block(wide.begin(p), wide.begin(p + 1), block);
    }
  });
  std::vector<Moments> result(size);
  for (const Part& part : parts) {
    for (std::size_t c = 0; c < size; ++c) {
      result[c].join({part.count, part.means[c], part.squares[c]});
    }
  }
  return result;
}

template <typename T>
Moments moments_of_channel(const BatchNormArgs& args, const ConvertedInput<T>& in, std::int64_t c,
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

template <typename T>
std::vector<Moments> moments_in(const BatchNormArgs& args, const Tensor& x) {
  if (args.channels_last) {
    return visit_stored<T>({&x},
                           [&]<typename S>() { return moments_channels_last<T, S>(args, x); });
  }
  const ConvertedInput<T> in(x);
  std::vector<Moments> result(static_cast<std::size_t>(args.channels));
  for_each_channel<T>(args, [&](std::int64_t c, T* memory) {
    result[static_cast<std::size_t>(c)] = moments_of_channel(args, in, c, memory);
  });
  return result;
}

}  // namespace

std::vector<Moments> moments_of(const BatchNormArgs& args, const Tensor& x) {
  if (x.dtype() == DType::kF64) return moments_in<double>(args, x);
  std::vector<Moments> result = moments_in<float>(args, x);
  const auto is_narrow = [&](const Moments& m) {
    return is_too_narrow(m.squares, m.count, args.eps);
  };
  if (std::ranges::none_of(result, is_narrow)) return result;
  const std::vector<Moments> wide = moments_in<double>(args, x);
  for (std::size_t c = 0; c < result.size(); ++c) {
    if (is_narrow(result[c])) result[c] = wide[c];
  }
  return result;
}

void batch_moments(const BatchNormArgs& args, const Tensor& x, const Tensor& moments) {
  auto* const out = moments.data<double>();
  const std::vector<Moments> found = moments_of(args, x);
  for (std::int64_t c = 0; c < args.channels; ++c) {
    out[c] = found[static_cast<std::size_t>(c)].mean;
    out[args.channels + c] = found[static_cast<std::size_t>(c)].squares;
  }
}

}  // namespace dl::kernels::cpu
