// Cumulative sums and products: see order_kernels.h.
#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/order/order_kernels.h"

namespace dl::kernels::cuda {
namespace {

// Totals are double or uint64, in which integers wrap around.
template <typename A>
__device__ A total_at(const void* in, DType dtype, std::int64_t at) {
  if constexpr (std::is_same_v<A, double>) {
    return load_double(in, dtype, at);
  } else {
    return static_cast<A>(load_as<std::int64_t>(in, dtype, at));
  }
}
template <typename A>
__device__ void put_total(void* out, DType dtype, std::int64_t at, A value) {
  if constexpr (std::is_same_v<A, double>) {
    store_double(out, dtype, at, value);
  } else {
    store_as<std::int64_t>(out, dtype, at, static_cast<std::int64_t>(value));
  }
}

// One thread a line: neighbouring threads have neighbouring lines.
template <typename A>
__global__ void __launch_bounds__(kThreads)
    lines_kernel(RunningArgs args, const void* in, void* out) {
  const std::int64_t line = thread_number();
  if (line >= args.lines.count) return;
  const Offsets<2> at = args.lines(static_cast<std::uint32_t>(line));
  A total = args.how == Running::kSum ? A(0) : A(1);
  for (std::int64_t k = 0; k < args.size; ++k) {
    const std::int64_t i = args.reverse ? args.size - 1 - k : k;
    const A value = total_at<A>(in, args.dtype, at.at[1] + i * args.step);
    total = args.how == Running::kSum ? total + value : total * value;
    put_total<A>(out, args.out_dtype, at.at[0] + i * args.out_step, total);
  }
}

// One block a line, for sums, and for products of integers. Products of floating numbers that skip
// the first factors may overflow.
template <typename A>
__global__ void __launch_bounds__(kGroupThreads)
    long_line_kernel(RunningArgs args, const void* in, void* out) {
  __shared__ A shared[kGroupThreads];
  const auto thread = static_cast<int>(threadIdx.x);
  const Offsets<2> at = args.lines(blockIdx.x);
  const A identity = args.how == Running::kSum ? A(0) : A(1);
  const auto combine = [&](A a, A b) { return args.how == Running::kSum ? a + b : a * b; };
  A before = identity;
  for (std::int64_t first = 0; first < args.size; first += kGroupThreads) {
    const std::int64_t k = first + thread;
    const std::int64_t i = args.reverse ? args.size - 1 - k : k;
    const A own = k < args.size ? total_at<A>(in, args.dtype, at.at[1] + i * args.step) : identity;
    const A total = sum_up_to_this_thread(own, shared, combine);
    __syncthreads();
    shared[thread] = total;
    __syncthreads();
    if (k < args.size) {
      put_total<A>(out, args.out_dtype, at.at[0] + i * args.out_step, combine(before, total));
    }
    before = combine(before, shared[kGroupThreads - 1]);
  }
}

// The gradient of input[k] is the product of all before it times s[k] = grad[k] + input[k + 1]
// s[k + 1], which never divides by an element, which may be 0.
__global__ void __launch_bounds__(kThreads)
    product_gradient_kernel(ProductGradientArgs args, const void* grad, const void* in,
                            double* sums, void* out) {
  const std::int64_t line = thread_number();
  if (line >= args.lines.count) return;
  const Offsets<3> at = args.lines(static_cast<std::uint32_t>(line));
  double* const s = sums + line * args.size;
  const auto x = [&](std::int64_t k) {
    return total_at<double>(in, args.dtype, at.at[1] + k * args.step);
  };
  double sum = 0;
  for (std::int64_t k = args.size; k-- > 0;) {
    const double g = total_at<double>(grad, args.grad_dtype, at.at[2] + k * args.grad_step);
    sum = k + 1 < args.size ? g + x(k + 1) * sum : g;
    s[k] = sum;
  }
  double before = 1;
  for (std::int64_t k = 0; k < args.size; ++k) {
    put_total<double>(out, args.dtype, at.at[0] + k * args.out_step, before * s[k]);
    before *= x(k);
  }
}

}  // namespace

void running_launch(const RunningArgs& args, const void* in, void* out, cudaStream_t stream) {
  // A block for each line keeps more threads busy if there are few lines.
  const std::int64_t least = args.lines.count < kGroupThreads ? 16 : 256;
  const auto launch = [&]<typename A>() {
    const bool any_order = args.how == Running::kSum || std::is_same_v<A, std::uint64_t>;
    if (any_order && args.size >= least) {
      long_line_kernel<A><<<args.lines.count, kGroupThreads, 0, stream>>>(args, in, out);
    } else {
      lines_kernel<A><<<blocks_for(args.lines.count), kThreads, 0, stream>>>(args, in, out);
    }
  };
  if (is_floating(args.dtype)) return launch.template operator()<double>();
  launch.template operator()<std::uint64_t>();
}

void product_gradient_launch(const ProductGradientArgs& args, const void* grad, const void* in,
                             double* sums, void* out, cudaStream_t stream) {
  product_gradient_kernel<<<blocks_for(args.lines.count), kThreads, 0, stream>>>(args, grad, in,
                                                                                 sums, out);
}

}  // namespace dl::kernels::cuda
