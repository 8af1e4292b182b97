#include <type_traits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"

namespace dl::kernels::cuda {
namespace {

// The accumulator type for compute type M.
template <typename M>
using Sum = std::conditional_t<std::is_floating_point_v<M>, double, std::uint64_t>;

template <typename M>
__device__ void store_sum(const SumArgs& args, std::int64_t at, Sum<M> total) {
  if constexpr (std::is_floating_point_v<M>) {
    M value = static_cast<M>(total / args.divisor);
    if (args.accumulate) value += load_as<M>(args.out, args.out_dtype, at);
    store_as<M>(args.out, args.out_dtype, at, value);
  } else {
    static_cast<std::uint64_t*>(args.out)[at] = total;  // integers wrap around
  }
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads) sum_kernel(SumArgs args) {
  __shared__ Sum<M> shared[kGroupThreads];
  const std::int64_t result =
      static_cast<std::int64_t>(blockIdx.x) * args.lines.lines() + args.lines.line();
  const bool present = result < args.kept.count;
  const Offsets<2> kept = present ? args.kept(static_cast<std::uint32_t>(result)) : Offsets<2>{};
  const std::int64_t begin =
      static_cast<std::int64_t>(args.reduced.count) * blockIdx.y / args.parts;
  const std::int64_t end =
      static_cast<std::int64_t>(args.reduced.count) * (blockIdx.y + 1) / args.parts;
  Sum<M> total{};
  if (present) {
    for (std::int64_t i = begin + args.lines.lane(); i < end; i += args.lines.lanes) {
      const Offsets<1> at = args.reduced(static_cast<std::uint32_t>(i));
      total += static_cast<Sum<M>>(load_as<M>(args.in, args.dtype, kept.at[1] + at.at[0]));
    }
  }
  total = args.lines.combine(total, shared, [](Sum<M> a, Sum<M> b) { return a + b; });
  if (!present || args.lines.lane() != 0) return;
  if (args.parts > 1) {
    static_cast<Sum<M>*>(args.partial)[blockIdx.y * std::int64_t{args.kept.count} + result] = total;
  } else {
    store_sum<M>(args, kept.at[0], total);
  }
}

template <typename M>
__global__ void __launch_bounds__(kThreads) sum_parts_kernel(SumArgs args) {
  const std::int64_t result = thread_number();
  if (result >= args.kept.count) return;
  Sum<M> total{};
  for (std::int64_t part = 0; part < args.parts; ++part) {
    total += static_cast<const Sum<M>*>(args.partial)[part * args.kept.count + result];
  }
  store_sum<M>(args, args.kept(static_cast<std::uint32_t>(result)).at[0], total);
}

template <typename M>
struct Best {
  M value;
  std::int64_t index;  // -1: none
};

template <typename M>
__device__ bool beats(M a, M b) {
  if constexpr (std::is_floating_point_v<M>) {
    return a > b || (a != a && b == b);
  } else {
    return a > b;
  }
}

template <typename M>
__device__ Best<M> better(const Best<M>& a, const Best<M>& b) {
  if (b.index < 0) return a;
  if (a.index < 0 || beats(b.value, a.value)) return b;
  if (beats(a.value, b.value)) return a;
  return a.index < b.index ? a : b;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads) max_kernel(MaxArgs args) {
  __shared__ Best<M> shared[kGroupThreads];
  const std::int64_t result =
      static_cast<std::int64_t>(blockIdx.x) * args.lines.lines() + args.lines.line();
  const bool present = result < args.kept.count;
  const Offsets<3> kept = present ? args.kept(static_cast<std::uint32_t>(result)) : Offsets<3>{};
  Best<M> best{M(0), -1};
  if (present) {
    for (std::int64_t i = args.lines.lane(); i < args.size; i += args.lines.lanes) {
      best = better(best, {load_as<M>(args.in, args.dtype, kept.at[2] + i * args.step), i});
    }
  }
  best = args.lines.combine(best, shared,
                            [](const Best<M>& a, const Best<M>& b) { return better(a, b); });
  if (!present || args.lines.lane() != 0) return;
  store_as<M>(args.values, args.dtype, kept.at[0], best.value);
  args.indices[kept.at[1]] = best.index;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    square_kernel(DType dtype, const void* a, const void* b, std::int64_t count, double* partial) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
       i < count; i += static_cast<std::int64_t>(gridDim.x) * kGroupThreads) {
    const M difference = load_as<M>(a, dtype, i) - load_as<M>(b, dtype, i);
    total += static_cast<double>(difference) * static_cast<double>(difference);
  }
  total = Lines{}.combine(total, shared, [](double x, double y) { return x + y; });
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    square_parts_kernel(DType dtype, const double* partial, std::int64_t count, void* out) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kSquareParts; i += kGroupThreads) {
    total += partial[i];
  }
  total = Lines{}.combine(total, shared, [](double x, double y) { return x + y; });
  if (threadIdx.x == 0) {
    store_as<M>(out, dtype, 0, static_cast<M>(total / static_cast<double>(count)));
  }
}

template <typename M>
void launch_sum(const SumArgs& args, cudaStream_t stream) {
  const auto lines = static_cast<std::uint32_t>(args.lines.lines());
  const dim3 grid((args.kept.count + lines - 1) / lines, args.parts);
  sum_kernel<M><<<grid, kGroupThreads, 0, stream>>>(args);
  if (args.parts > 1) {
    sum_parts_kernel<M><<<blocks_for(args.kept.count), kThreads, 0, stream>>>(args);
  }
}

template <typename Launch>
void with_any_arithmetic(DType dtype, const Launch& launch) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return launch.template operator()<float>();
    case DType::kF64:
      return launch.template operator()<double>();
    default:
      return launch.template operator()<std::int64_t>();
  }
}

}  // namespace

void sum_launch(const SumArgs& args, cudaStream_t stream) {
  with_any_arithmetic(args.dtype, [&]<typename M>() { launch_sum<M>(args, stream); });
}

void max_launch(const MaxArgs& args, cudaStream_t stream) {
  const auto lines = static_cast<std::uint32_t>(args.lines.lines());
  with_any_arithmetic(args.dtype, [&]<typename M>() {
    max_kernel<M><<<(args.kept.count + lines - 1) / lines, kGroupThreads, 0, stream>>>(args);
  });
}

void mean_square_launch(DType dtype, const void* a, const void* b, std::int64_t count,
                        double* partial, void* out, cudaStream_t stream) {
  const auto launch = [&]<typename M>() {
    square_kernel<M><<<kSquareParts, kGroupThreads, 0, stream>>>(dtype, a, b, count, partial);
    square_parts_kernel<M><<<1, kGroupThreads, 0, stream>>>(dtype, partial, count, out);
  };
  if (dtype == DType::kF64) return launch.template operator()<double>();
  launch.template operator()<float>();
}

}  // namespace dl::kernels::cuda
