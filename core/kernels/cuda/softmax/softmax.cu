#include <cmath>
#include <limits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/softmax/softmax_kernels.h"

namespace dl::kernels::cuda {
namespace {

// The larger of two; NaN is the largest.
struct Larger {
  template <typename M>
  __device__ M operator()(M a, M b) const {
    return b > a || b != b ? b : a;
  }
};
struct Plus {
  template <typename M>
  __device__ M operator()(M a, M b) const {
    return a + b;
  }
};

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
  const std::int64_t line =
      static_cast<std::int64_t>(blockIdx.x) * args.lines.lines() + args.lines.line();
  return {line < args.lines_count, line / args.step * args.size * args.step + line % args.step};
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    softmax_kernel(SoftmaxArgs args, const void* in, void* out) {
  __shared__ M shared[kGroupThreads];
  const Place place = place_of(args);
  const std::int64_t end = place.present ? args.size : 0;
  const int lane = args.lines.lane();
  M largest = lowest<M>();
  for (std::int64_t i = lane; i < end; i += args.lines.lanes) {
    largest = Larger()(largest, load_as<M>(in, args.dtype, place.first + i * args.step));
  }
  largest = args.lines.combine(largest, shared, Larger());
  M total = 0;
  for (std::int64_t i = lane; i < end; i += args.lines.lanes) {
    total += std::exp(load_as<M>(in, args.dtype, place.first + i * args.step) - largest);
  }
  total = args.lines.combine(total, shared, Plus());
  const M log_total = std::log(total);
  const M scale = M(1) / total;
  for (std::int64_t i = lane; i < end; i += args.lines.lanes) {
    const std::int64_t at = place.first + i * args.step;
    const M below = load_as<M>(in, args.dtype, at) - largest;
    // Two subtractions, because adding a large maximum would round the logarithm away.
    store_as<M>(out, args.dtype, at, args.logarithm ? below - log_total : std::exp(below) * scale);
  }
}

// softmax:     dx = y (g - sum(g y))
// log_softmax: dx = g - e^y sum(g)
template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    softmax_backward_kernel(SoftmaxArgs args, const void* grad, const void* output, void* out) {
  __shared__ M shared[kGroupThreads];
  const Place place = place_of(args);
  const std::int64_t end = place.present ? args.size : 0;
  const int lane = args.lines.lane();
  M total = 0;
  for (std::int64_t i = lane; i < end; i += args.lines.lanes) {
    const std::int64_t at = place.first + i * args.step;
    const M g = load_as<M>(grad, args.dtype, at);
    total += args.logarithm ? g : g * load_as<M>(output, args.dtype, at);
  }
  total = args.lines.combine(total, shared, Plus());
  for (std::int64_t i = lane; i < end; i += args.lines.lanes) {
    const std::int64_t at = place.first + i * args.step;
    const M g = load_as<M>(grad, args.dtype, at);
    const M y = load_as<M>(output, args.dtype, at);
    store_as<M>(out, args.dtype, at, args.logarithm ? g - std::exp(y) * total : y * (g - total));
  }
}

// Each row's maximum, and ln sum exp(x - maximum).
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    row_sums_kernel(CrossEntropyArgs args, Lines lines) {
  __shared__ M shared[kGroupThreads];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * lines.lines() + lines.line();
  const bool present = row < args.rows;
  const std::int64_t end = present ? args.classes : 0;
  const std::int64_t first = row * args.classes;
  M largest = lowest<M>();
  for (std::int64_t i = lines.lane(); i < end; i += lines.lanes) {
    largest = Larger()(largest, load_as<M>(args.logits, args.dtype, first + i));
  }
  largest = lines.combine(largest, shared, Larger());
  M total = 0;
  for (std::int64_t i = lines.lane(); i < end; i += lines.lanes) {
    total += std::exp(load_as<M>(args.logits, args.dtype, first + i) - largest);
  }
  total = lines.combine(total, shared, Plus());
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
  total = Lines{}.combine(total, shared, Plus());
  counted = Lines{}.combine(counted, shared, Plus());
  if (threadIdx.x != 0) return;
  store_as<M>(loss, args.dtype, 0, static_cast<M>(total / counted));
  *args.counted = static_cast<std::int64_t>(counted);
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    cross_entropy_backward_kernel(CrossEntropyArgs args, Lines lines, const void* grad, void* out) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * lines.lines() + lines.line();
  if (row >= args.rows) return;
  const std::int64_t target = args.target[row];
  const bool ignored = target == args.ignore_index;
  const M largest = load_as<M>(args.row_sums, args.dtype, 2 * row);
  const M log_sum = load_as<M>(args.row_sums, args.dtype, 2 * row + 1);
  const M scale = load_as<M>(grad, args.dtype, 0) / static_cast<M>(*args.counted);
  for (std::int64_t i = lines.lane(); i < args.classes; i += lines.lanes) {
    const std::int64_t at = row * args.classes + i;
    M value = M(0) * log_sum;  // NaN if a probability of the row is
    if (!ignored) {
      value = scale * std::exp(load_as<M>(args.logits, args.dtype, at) - largest - log_sum);
      if (i == target) value -= scale;
    }
    store_as<M>(out, args.dtype, at, value);
  }
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    mse_backward_kernel(DType dtype, const void* grad, const void* x, const void* y, double factor,
                        std::int64_t count, void* d) {
  const std::int64_t i = thread_number();
  if (i >= count) return;
  const M scale = static_cast<M>(factor * static_cast<double>(load_as<M>(grad, dtype, 0)));
  store_as<M>(d, dtype, i, scale * (load_as<M>(x, dtype, i) - load_as<M>(y, dtype, i)));
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
  const Lines lines = lines_for(args.classes, false);
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
  const Lines lines = lines_for(args.classes, false);
  with_arithmetic(args.dtype, [&]<typename M>() {
    cross_entropy_backward_kernel<M>
        <<<blocks_of_groups(args.rows, lines), kGroupThreads, 0, stream>>>(args, lines, grad,
                                                                           dlogits);
  });
}

void mse_backward_launch(DType dtype, const void* grad, const void* x, const void* y, double sign,
                         std::int64_t count, void* d, cudaStream_t stream) {
  with_arithmetic(dtype, [&]<typename M>() {
    mse_backward_kernel<M><<<blocks_for(count), kThreads, 0, stream>>>(
        dtype, grad, x, y, sign * 2 / static_cast<double>(count), count, d);
  });
}

}  // namespace dl::kernels::cuda
