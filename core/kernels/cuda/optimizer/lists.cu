#include <cmath>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/optimizer/lists_kernels.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {
namespace {

static_assert(kThreads == kGroupThreads);

template <typename M>
__device__ M norm_of_chunk(const void* data, DType dtype, const Chunk& chunk, NormKind kind, M p) {
  M total = 0;
  const auto for_all = [&](const auto& take) {
    for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
      take(load_as<M>(data, dtype, i));
    }
  };
  switch (kind) {
    case NormKind::kAbsolutes:
      for_all([&](M x) { total += std::fabs(x); });
      break;
    case NormKind::kSquares:
      for_all([&](M x) { total += x * x; });
      break;
    case NormKind::kPowers:
      for_all([&](M x) { total += std::pow(std::fabs(x), p); });
      break;
    case NormKind::kLargest:
      for_all([&](M x) { total = Larger()(total, std::fabs(x)); });
      break;
  }
  return total;
}

// Combines the values of all threads of the block.
__device__ double combined(double value, NormKind kind) {
  __shared__ double shared[kThreads];
  const Lines lines;
  return kind == NormKind::kLargest ? lines.combine(value, shared, Larger())
                                    : lines.combine(value, shared, Add());
}

__global__ void __launch_bounds__(kThreads)
    norm_parts_kernel(TensorList<1> list, NormKind kind, double p, double* parts) {
  const Chunk chunk = chunk_of(list);
  const auto dtype = static_cast<DType>(list.marks[chunk.tensor]);
  const void* const data = list.pointers[chunk.tensor][0];
  const double own = dtype == DType::kF64 ? norm_of_chunk<double>(data, dtype, chunk, kind, p)
                                          : static_cast<double>(norm_of_chunk<float>(
                                                data, dtype, chunk, kind, static_cast<float>(p)));
  const double total = combined(own, kind);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    norm_kernel(const double* parts, std::int64_t count, NormKind kind, double p, void* norm,
                DType dtype) {
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    own = kind == NormKind::kLargest ? Larger()(own, parts[i]) : own + parts[i];
  }
  const double total = combined(own, kind);
  if (threadIdx.x != 0) return;
  const double root = kind == NormKind::kSquares  ? std::sqrt(total)
                      : kind == NormKind::kPowers ? std::pow(total, 1 / p)
                                                  : total;
  store_double(norm, dtype, 0, root);
}

template <typename N>
__global__ void __launch_bounds__(kThreads)
    clip_norm_kernel(TensorList<1> list, N max_norm, const N* norm) {
  const N factor = max_norm / (*norm + N(1e-6));
  if (factor >= N(1)) return;
  change_chunk(list, [factor](auto x) { return x * static_cast<decltype(x)>(factor); });
}

__global__ void __launch_bounds__(kThreads) clip_value_kernel(TensorList<1> list, double bound) {
  change_chunk(list, [bound](auto x) {
    const auto limit = static_cast<decltype(x)>(bound);
    return x > limit ? limit : x < -limit ? -limit : x;
  });
}

template <typename M>
__device__ void average_chunk(void* const* pointers, DType dtype, const Chunk& chunk, bool copies,
                              M share) {
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
    const M value = load_as<M>(pointers[1], dtype, i);
    const M average = load_as<M>(pointers[0], dtype, i);
    store_as<M>(pointers[0], dtype, i,
                copies ? value : formulas::Lerp::value(average, value, share));
  }
}

__global__ void __launch_bounds__(kThreads)
    average_kernel(TensorList<2> list, const std::int64_t* count, AverageStep step) {
  const Chunk chunk = chunk_of(list);
  const auto dtype = static_cast<DType>(list.marks[chunk.tensor]);
  void* const* const pointers = list.pointers[chunk.tensor];
  const std::int64_t before = *count;
  const double share = step.kind == AverageStep::Kind::kMoving
                           ? 1 - step.decay
                           : 1 / (static_cast<double>(before) + 1);
  if (dtype == DType::kF64) {
    average_chunk<double>(pointers, dtype, chunk, before == 0, share);
  } else {
    average_chunk<float>(pointers, dtype, chunk, before == 0, static_cast<float>(share));
  }
}

template <typename T>
__device__ void copy_chunk(void* const* pointers, const Chunk& chunk) {
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
    static_cast<T*>(pointers[0])[i] = static_cast<const T*>(pointers[1])[i];
  }
}

__global__ void __launch_bounds__(kThreads) copy_list_kernel(TensorList<2> list) {
  const Chunk chunk = chunk_of(list);
  void* const* const pointers = list.pointers[chunk.tensor];
  switch (list.marks[chunk.tensor]) {
    case 1:
      return copy_chunk<std::uint8_t>(pointers, chunk);
    case 2:
      return copy_chunk<std::uint16_t>(pointers, chunk);
    case 4:
      return copy_chunk<std::uint32_t>(pointers, chunk);
    default:
      return copy_chunk<std::uint64_t>(pointers, chunk);
  }
}

}  // namespace

void norm_parts_launch(const TensorList<1>& list, int blocks, double p, double* parts,
                       cudaStream_t stream) {
  norm_parts_kernel<<<blocks, kThreads, 0, stream>>>(list, norm_kind(p), p, parts);
}

void norm_launch(const double* parts, std::int64_t count, double p, void* norm, DType dtype,
                 cudaStream_t stream) {
  norm_kernel<<<1, kThreads, 0, stream>>>(parts, count, norm_kind(p), p, norm, dtype);
}

void clip_norm_launch(const TensorList<1>& list, int blocks, double max_norm, const void* norm,
                      DType norm_dtype, cudaStream_t stream) {
  with_arithmetic(norm_dtype, [&]<typename N>() {
    clip_norm_kernel<N><<<blocks, kThreads, 0, stream>>>(list, static_cast<N>(max_norm),
                                                         static_cast<const N*>(norm));
  });
}

void clip_value_launch(const TensorList<1>& list, int blocks, double bound, cudaStream_t stream) {
  clip_value_kernel<<<blocks, kThreads, 0, stream>>>(list, bound);
}

void average_launch(const TensorList<2>& list, int blocks, const std::int64_t* count,
                    const AverageStep& step, cudaStream_t stream) {
  average_kernel<<<blocks, kThreads, 0, stream>>>(list, count, step);
}

void copy_list_launch(const TensorList<2>& list, int blocks, cudaStream_t stream) {
  copy_list_kernel<<<blocks, kThreads, 0, stream>>>(list);
}

}  // namespace dl::kernels::cuda
