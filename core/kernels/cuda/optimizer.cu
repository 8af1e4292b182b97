#include <cmath>

#include "core/kernels/cuda/device_types.h"
#include "core/kernels/cuda/optimizer_kernels.h"

namespace dl::kernels::cuda {
namespace {

// The chunk of a block: a tensor, and its elements from `begin` to `end`.
struct Chunk {
  int tensor;
  std::int64_t begin, end;
};

template <int kPointers>
__device__ Chunk chunk_of(const TensorList<kPointers>& list) {
  const int tensor = list.tensor_of[blockIdx.x];
  const std::int64_t begin = list.chunk_of[blockIdx.x] * kChunk;
  return {tensor, begin, min(begin + kChunk, list.sizes[tensor])};
}

__device__ bool is_skipped(const OptimizerScalars& scalars) {
  return scalars.found_inf != nullptr && *scalars.found_inf != 0;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(TensorList<3> list, SgdStep step, OptimizerScalars scalars) {
  if (is_skipped(scalars)) return;
  const Chunk chunk = chunk_of(list);
  auto* const parameter = static_cast<T*>(list.pointers[chunk.tensor][0]);
  const auto* const gradient = static_cast<const T*>(list.pointers[chunk.tensor][1]);
  auto* const momentum = static_cast<T*>(list.pointers[chunk.tensor][2]);
  const bool first_step = list.marks[chunk.tensor] != 0;
  const T lr = static_cast<T>(scalars.lr != nullptr ? *scalars.lr : step.lr);
  const T decay = static_cast<T>(step.weight_decay);
  const T keep = static_cast<T>(step.momentum);
  const T take = static_cast<T>(1 - step.dampening);
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
    const T p = parameter[i];
    T g = gradient[i];
    if (decay != 0) g += decay * p;
    if (momentum != nullptr) {
      const T buffer = first_step ? g : keep * momentum[i] + take * g;
      momentum[i] = buffer;
      g = step.nesterov ? g + keep * buffer : buffer;
    }
    parameter[i] = p - lr * g;
  }
}

__global__ void count_kernel(TensorList<5> list, int tensors, OptimizerScalars scalars) {
  const int tensor = static_cast<int>(threadIdx.x);
  if (tensor < tensors && !is_skipped(scalars)) {
    *static_cast<float*>(list.pointers[tensor][4]) += 1;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(TensorList<5> list, AdamStep step, OptimizerScalars scalars) {
  if (is_skipped(scalars)) return;
  // p = shrink * p - size * m / (sqrt(v) * root + eps), of which each block works out the factors
  // once.
  __shared__ T shrink;
  __shared__ T size;
  __shared__ T root;
  const Chunk chunk = chunk_of(list);
  if (threadIdx.x == 0) {
    const double t = *static_cast<const float*>(list.pointers[chunk.tensor][4]);
    const double lr = scalars.lr != nullptr ? *scalars.lr : step.lr;
    shrink = static_cast<T>(step.decoupled ? 1 - lr * step.weight_decay : 1);
    size = static_cast<T>(lr / (1 - std::pow(step.beta1, t)));
    root = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
  }
  __syncthreads();
  auto* const parameter = static_cast<T*>(list.pointers[chunk.tensor][0]);
  const auto* const gradient = static_cast<const T*>(list.pointers[chunk.tensor][1]);
  auto* const mean = static_cast<T*>(list.pointers[chunk.tensor][2]);
  auto* const square = static_cast<T*>(list.pointers[chunk.tensor][3]);
  const T decay = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  const T keep1 = static_cast<T>(step.beta1);
  const T take1 = static_cast<T>(1 - step.beta1);
  const T keep2 = static_cast<T>(step.beta2);
  const T take2 = static_cast<T>(1 - step.beta2);
  const T eps = static_cast<T>(step.eps);
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
    const T p = parameter[i];
    T g = gradient[i];
    if (decay != 0) g += decay * p;
    T m = mean[i];
    // From the nearer end, as PyTorch's lerp: g - m loses a g that is much smaller than m.
    m = take1 < static_cast<T>(0.5) ? m + take1 * (g - m) : g - keep1 * (g - m);
    const T v = keep2 * square[i] + take2 * g * g;
    mean[i] = m;
    square[i] = v;
    parameter[i] = shrink * p - size * m / (std::sqrt(v) * root + eps);
  }
}

template <typename M>
__device__ bool unscale_chunk(void* data, DType dtype, const Chunk& chunk, M inverse) {
  bool finite = true;
  for (std::int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
    const M value = load_as<M>(data, dtype, i);
    finite = finite && isfinite(value);
    store_as<M>(data, dtype, i, value * inverse);
  }
  return finite;
}

__global__ void __launch_bounds__(kThreads)
    unscale_kernel(TensorList<1> list, const float* inverse_scale, float* found_inf) {
  const Chunk chunk = chunk_of(list);
  const auto dtype = static_cast<DType>(list.marks[chunk.tensor]);
  void* const data = list.pointers[chunk.tensor][0];
  const float inverse = *inverse_scale;
  const bool finite = dtype == DType::kF64 ? unscale_chunk<double>(data, dtype, chunk, inverse)
                                           : unscale_chunk<float>(data, dtype, chunk, inverse);
  if (!finite) *found_inf = 1;  // whoever writes it, writes the same
}

__global__ void update_scale_kernel(float* scale, std::int32_t* growth_tracker,
                                    const float* found_inf, float growth_factor,
                                    float backoff_factor, std::int64_t growth_interval) {
  if (*found_inf != 0) {
    *scale *= backoff_factor;
    *growth_tracker = 0;
    return;
  }
  const std::int32_t good_steps = *growth_tracker + 1;
  if (good_steps < growth_interval) {
    *growth_tracker = good_steps;
    return;
  }
  *growth_tracker = 0;
  const float grown = *scale * growth_factor;
  if (isfinite(grown)) *scale = grown;
}

}  // namespace

void sgd_launch(DType dtype, const TensorList<3>& list, int blocks, const SgdStep& step,
                const OptimizerScalars& scalars, cudaStream_t stream) {
  if (dtype == DType::kF64) {
    sgd_kernel<double><<<blocks, kThreads, 0, stream>>>(list, step, scalars);
  } else {
    sgd_kernel<float><<<blocks, kThreads, 0, stream>>>(list, step, scalars);
  }
}

void count_steps_launch(const TensorList<5>& list, int tensors, const OptimizerScalars& scalars,
                        cudaStream_t stream) {
  count_kernel<<<1, kListTensors, 0, stream>>>(list, tensors, scalars);
}

void adam_launch(DType dtype, const TensorList<5>& list, int blocks, const AdamStep& step,
                 const OptimizerScalars& scalars, cudaStream_t stream) {
  if (dtype == DType::kF64) {
    adam_kernel<double><<<blocks, kThreads, 0, stream>>>(list, step, scalars);
  } else {
    adam_kernel<float><<<blocks, kThreads, 0, stream>>>(list, step, scalars);
  }
}

void unscale_launch(const TensorList<1>& list, int blocks, const float* inverse_scale,
                    float* found_inf, cudaStream_t stream) {
  unscale_kernel<<<blocks, kThreads, 0, stream>>>(list, inverse_scale, found_inf);
}

void update_scale_launch(float* scale, std::int32_t* growth_tracker, const float* found_inf,
                         double growth_factor, double backoff_factor, std::int64_t growth_interval,
                         cudaStream_t stream) {
  update_scale_kernel<<<1, 1, 0, stream>>>(scale, growth_tracker, found_inf,
                                           static_cast<float>(growth_factor),
                                           static_cast<float>(backoff_factor), growth_interval);
}

}  // namespace dl::kernels::cuda
