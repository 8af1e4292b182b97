#include <cmath>
#include <limits>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/softmax/softmax_kernels.h"

namespace dl::kernels::cuda {
namespace {

template <typename M>
__device__ constexpr M lowest() {
  return -std::numeric_limits<M>::infinity();
}

// The line of a thread's group, and the thread's lane.
struct Place {
  bool present;
  std::int64_t first;
};

__device__ inline Place place_of(const SoftmaxArgs& args) {
  const std::int64_t line = result_of_group(args.lines);
  return {line < args.lines_count, line / args.step * args.size * args.step + line % args.step};
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    softmax_kernel(SoftmaxArgs args, const void* in, void* out) {
  __shared__ M shared[kGroupThreads];
  const Place place = place_of(args);
  const auto packs =
      packs_of<M>(in, args.dtype, place.first, place.present ? args.size : 0, args.step);
  const auto load = [&](const auto& pack, M(&x)[kRowPack<M>]) {
    pack.load(in, args.dtype, place.first, x, lowest<M>());
  };
  M largest = lowest<M>();
  packs.for_each(args.lines, [&](const auto& pack) {
    M x[pack.kCount];
    load(pack, x);
    for (const M value : x) largest = Larger()(largest, value);
  });
  largest = args.lines.combine(largest, shared, Larger());
  M total = 0;
  packs.for_each(args.lines, [&](const auto& pack) {
    M x[pack.kCount];
    load(pack, x);
    for (const M value : x) total += std::exp(value - largest);
  });
  total = args.lines.combine(total, shared, Add());
  const M log_total = std::log(total);
  const M scale = M(1) / total;
  packs.for_each(args.lines, [&](const auto& pack) {
    M x[pack.kCount];
    load(pack, x);
    for (M& value : x) {
      const M below = value - largest;
      // Two subtractions, because adding a large maximum would round the logarithm away.
      value = args.logarithm ? below - log_total : std::exp(below) * scale;
    }
    pack.store(out, args.dtype, place.first, x);
  });
}

// softmax:     dx = y (g - sum(g y))
// log_softmax: dx = g - e^y sum(g)
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    softmax_backward_kernel(SoftmaxArgs args, const void* grad, const void* output, void* out) {
  __shared__ M shared[kGroupThreads];
  const Place place = place_of(args);
  const auto packs =
      packs_of<M>(grad, args.dtype, place.first, place.present ? args.size : 0, args.step);
  M total = 0;
  packs.for_each(args.lines, [&](const auto& pack) {
    M g[pack.kCount];
    pack.load(grad, args.dtype, place.first, g);
    if (!args.logarithm) {
      M y[pack.kCount];
      pack.load(output, args.dtype, place.first, y);
      for (int k = 0; k < pack.kCount; ++k) g[k] *= y[k];
    }
    for (const M value : g) total += value;
  });
  total = args.lines.combine(total, shared, Add());
  packs.for_each(args.lines, [&](const auto& pack) {
    M g[pack.kCount];
    M y[pack.kCount];
    pack.load(grad, args.dtype, place.first, g);
    pack.load(output, args.dtype, place.first, y);
    for (int k = 0; k < pack.kCount; ++k) {
      g[k] = args.logarithm ? g[k] - std::exp(y[k]) * total : y[k] * (g[k] - total);
    }
    pack.store(out, args.dtype, place.first, g);
  });
}

// Each row's maximum, and ln sum exp(x - maximum).
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    row_sums_kernel(CrossEntropyArgs args, Lines lines) {
  __shared__ M shared[kGroupThreads];
  const std::int64_t row = result_of_group(lines);
  const bool present = row < args.rows;
  const std::int64_t first = row * args.classes;
  const auto packs = packs_of<M>(args.logits, args.dtype, first, present ? args.classes : 0);
  M largest = lowest<M>();
  packs.for_each(lines, [&](const auto& pack) {
    M x[pack.kCount];
    pack.load(args.logits, args.dtype, first, x, lowest<M>());
    for (const M value : x) largest = Larger()(largest, value);
  });
  largest = lines.combine(largest, shared, Larger());
  M total = 0;
  packs.for_each(lines, [&](const auto& pack) {
    M x[pack.kCount];
    pack.load(args.logits, args.dtype, first, x, lowest<M>());
    for (const M value : x) total += std::exp(value - largest);
  });
  total = lines.combine(total, shared, Add());
  if (!present || lines.lane() != 0) return;
  store_as<M>(args.row_sums, args.dtype, 2 * row, largest);
  store_as<M>(args.row_sums, args.dtype, 2 * row + 1, std::log(total));
}

// One block: the mean over the rows that count, in a fixed order.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    loss_kernel(CrossEntropyArgs args, void* loss, dl::cuda::FaultPlace fault) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  double counted = 0;
  for (std::int64_t row = threadIdx.x; row < args.rows; row += kGroupThreads) {
    const std::int64_t target = args.target[row];
    if (target == args.ignore_index) continue;
    counted += 1;
    if (target < 0 || target >= args.classes) {
      dl::cuda::fault::report(fault, row, target, args.classes);
      total = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    const M below = load_as<M>(args.row_sums, args.dtype, 2 * row) -
                    load_as<M>(args.logits, args.dtype, row * args.classes + target);
    total += static_cast<double>(below) +
             static_cast<double>(load_as<M>(args.row_sums, args.dtype, 2 * row + 1));
  }
  total = Lines{}.combine(total, shared, Add());
  counted = Lines{}.combine(counted, shared, Add());
  if (threadIdx.x != 0) return;
  store_as<M>(loss, args.dtype, 0, static_cast<M>(total / counted));
  *args.counted = static_cast<std::int64_t>(counted);
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    cross_entropy_backward_kernel(CrossEntropyArgs args, Lines lines, const void* grad, void* out) {
  const std::int64_t row = result_of_group(lines);
  if (row >= args.rows) return;
  const std::int64_t target = args.target[row];
  const bool ignored = target == args.ignore_index;
  const M largest = load_as<M>(args.row_sums, args.dtype, 2 * row);
  const M log_sum = load_as<M>(args.row_sums, args.dtype, 2 * row + 1);
  const M scale = load_as<M>(grad, args.dtype, 0) / static_cast<M>(*args.counted);
  const std::int64_t first = row * args.classes;
  packs_of<M>(args.logits, args.dtype, first, args.classes).for_each(lines, [&](const auto& pack) {
    M x[pack.kCount];
    pack.load(args.logits, args.dtype, first, x);
    for (int k = 0; k < pack.kCount; ++k) {
      const M logit = x[k];
      x[k] = M(0) * log_sum;  // NaN if a probability of the row is
      if (ignored) continue;
      x[k] = scale * std::exp(logit - largest - log_sum);
      if (pack.at + k == target) x[k] -= scale;
    }
    pack.store(out, args.dtype, first, x);
  });
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    mse_backward_kernel(DType dtype, const void* grad, const void* x, const void* y, double factor,
                        std::int64_t count, void* d) {
  const auto packs = packs_of<M>(x, dtype, 0, count);
  if (!packs.has(thread_number())) return;
  const auto pack = packs.pack(thread_number());
  const M scale = static_cast<M>(factor * static_cast<double>(load_as<M>(grad, dtype, 0)));
  M left[pack.kCount];
  M right[pack.kCount];
  pack.load(x, dtype, 0, left);
  pack.load(y, dtype, 0, right);
  for (int k = 0; k < pack.kCount; ++k) left[k] = scale * (left[k] - right[k]);
  pack.store(d, dtype, 0, left);
}

}  // namespace

void softmax_launch(const SoftmaxArgs& args, const void* in, void* out, cudaStream_t stream) {
  with_arithmetic(args.dtype, [&]<typename M>() {
    softmax_kernel<M><<<blocks_of_groups(args.lines_count, args.lines), kGroupThreads, 0, stream>>>(
        args, in, out);
  });
}

void softmax_backward_launch(const SoftmaxArgs& args, const void* grad, const void* output,
                             void* out, cudaStream_t stream) {
  with_arithmetic(args.dtype, [&]<typename M>() {
    softmax_backward_kernel<M>
        <<<blocks_of_groups(args.lines_count, args.lines), kGroupThreads, 0, stream>>>(args, grad,
                                                                                       output, out);
  });
}

void cross_entropy_launch(const CrossEntropyArgs& args, void* loss, dl::cuda::FaultPlace fault,
                          cudaStream_t stream) {
  const Lines lines = lines_of_packs(args.dtype, args.classes, false);
  with_arithmetic(args.dtype, [&]<typename M>() {
    if (args.rows > 0) {
      row_sums_kernel<M>
          <<<blocks_of_groups(args.rows, lines), kGroupThreads, 0, stream>>>(args, lines);
    }
    loss_kernel<M><<<1, kGroupThreads, 0, stream>>>(args, loss, fault);
  });
}

void cross_entropy_backward_launch(const CrossEntropyArgs& args, const void* grad, void* dlogits,
                                   cudaStream_t stream) {
  const Lines lines = lines_of_packs(args.dtype, args.classes, false);
  with_arithmetic(args.dtype, [&]<typename M>() {
    cross_entropy_backward_kernel<M>
        <<<blocks_of_groups(args.rows, lines), kGroupThreads, 0, stream>>>(args, lines, grad,
                                                                           dlogits);
  });
}

void mse_backward_launch(DType dtype, const void* grad, const void* x, const void* y, double sign,
                         std::int64_t count, void* d, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    mse_backward_kernel<M><<<blocks_for(packs_in<kRowPack<M>>(count)), kThreads, 0, stream>>>(
        dtype, grad, x, y, sign * 2 / static_cast<double>(count), count, d);
  });
}

}  // namespace dl::kernels::cuda
