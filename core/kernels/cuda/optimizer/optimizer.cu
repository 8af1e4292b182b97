#include <cmath>

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/optimizer/optimizer_kernels.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {
namespace {

__device__ bool is_skipped(const OptimizerScalars& scalars) {
  return scalars.found_inf != nullptr && *scalars.found_inf != 0;
}

template <typename Step>
__device__ Step current(const Step& step, const OptimizerScalars& scalars) {
  return scalars.momentum != nullptr ? formulas::with_momentum(step, *scalars.momentum) : step;
}

template <typename Step>
__global__ void raise_counts_kernel(ListOf<Step> list, int tensors, Step step,
                                    OptimizerScalars scalars) {
  const int tensor = static_cast<int>(threadIdx.x);
  if (tensor >= tensors || is_skipped(scalars)) return;
  float* counts[Step::kCounts];
  for (int k = 0; k < Step::kCounts; ++k) {
    counts[k] = static_cast<float*>(list.pointers[tensor][2 + Step::kState + k]);
  }
  formulas::raise_counts(current(step, scalars), counts);
}

// Elements that a thread has at once. More would not fit into 64 registers beside their states and
// the factors.
template <typename Step, typename E>
constexpr int stepped() {
  using Factors = typename formulas::RuleOf<Step>::template Factors<Wide<E>>;
  if (sizeof(E) == 8) return sizeof(Factors) > 72 ? 1 : 2;
  return Step::kState > 2 ? 4 : kPackOf<E>;
}

// E: the element type of parameter and gradient. The state has the compute type.
template <typename Step, typename E>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    optimizer_kernel(ListOf<Step> list, Step step, OptimizerScalars scalars) {
  using T = Wide<E>;
  using Rule = formulas::RuleOf<Step>;
  using Factors = typename Rule::template Factors<T>;
  if (is_skipped(scalars)) return;
  const Chunk chunk = chunk_of(list);
  void* const* const pointers = list.pointers[chunk.tensor];
  __shared__ Factors shared;  // computed once for each block
  if (threadIdx.x == 0) {
    float* counts[kMaxOptimizerCounts];
    for (int k = 0; k < Step::kCounts; ++k) {
      counts[k] = static_cast<float*>(pointers[2 + Step::kState + k]);
    }
    const double lr = scalars.lr != nullptr ? *scalars.lr : step.lr;
    shared =
        Rule::template factors<T>(current(step, scalars), lr, formulas::counts_of<Step>(counts));
  }
  __syncthreads();
  const Factors factors = shared;
  auto* const parameter = static_cast<E*>(pointers[0]) + chunk.begin;
  const auto* const gradient = static_cast<const E*>(pointers[1]) + chunk.begin;
  T* state[Step::kState];
  for (int k = 0; k < Step::kState; ++k) {
    state[k] = static_cast<T*>(pointers[2 + k]);
    if (state[k] != nullptr) state[k] += chunk.begin;
  }
  const bool first_step = list.marks[chunk.tensor] != 0;
  const auto packs = packs_of<stepped<Step, E>()>(parameter, sizeof(E), 0, chunk.end - chunk.begin);
  packs.for_each(Lines{}, [&](const auto& pack) {
    T p[pack.kCount];
    T g[pack.kCount];
    T s[Step::kState][pack.kCount];
    pack.load(parameter, p);
    pack.load(gradient, g);
    for (int k = 0; k < Step::kState; ++k) {
      if (state[k] != nullptr) {
        pack.load(state[k], s[k]);
      } else {
        for (T& value : s[k]) value = T(0);
      }
    }
#pragma unroll
    for (int i = 0; i < pack.kCount; ++i) {
      T of_element[Step::kState];
      for (int k = 0; k < Step::kState; ++k) of_element[k] = s[k][i];
      Rule::update(factors, first_step, p[i], formulas::directed(step, g[i]), of_element);
      for (int k = 0; k < Step::kState; ++k) s[k][i] = of_element[k];
    }
    pack.store(parameter, p);
    for (int k = 0; k < Step::kState; ++k) {
      if (state[k] != nullptr) pack.store(state[k], s[k]);
    }
  });
}

__global__ void __launch_bounds__(kThreads)
    unscale_kernel(TensorList<1> list, const float* inverse_scale, float* found_inf) {
  const float inverse = *inverse_scale;
  bool finite = true;
  change_chunk(list, [&](auto x) {
    finite = finite && isfinite(x);
    return x * static_cast<decltype(x)>(inverse);
  });
  if (!finite) *found_inf = 1;  // all threads that write it write the same value
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

template <typename Step>
void raise_counts_launch(const ListOf<Step>& list, int tensors, const Step& step,
                         const OptimizerScalars& scalars, cudaStream_t stream) {
  raise_counts_kernel<Step><<<1, kListTensors, 0, stream>>>(list, tensors, step, scalars);
}

template <typename Step>
void optimizer_launch(DType dtype, const ListOf<Step>& list, int blocks, const Step& step,
                      const OptimizerScalars& scalars, cudaStream_t stream) {
  with_element(dtype, [&]<typename E>() {
    optimizer_kernel<Step, E><<<blocks, kThreads, 0, stream>>>(list, step, scalars);
  });
}

template <typename Step>
constexpr StepLaunches<Step> launches_of() {
  if constexpr (Step::kCounts > 0) return {raise_counts_launch<Step>, optimizer_launch<Step>};
  return {nullptr, optimizer_launch<Step>};
}

template <typename... Steps>
constexpr LaunchesOf<std::variant<Steps...>> all_launches(const std::variant<Steps...>*) {
  return {launches_of<Steps>()...};
}

}  // namespace

constexpr LaunchesOf<OptimizerStep> optimizer_launches =
    all_launches(static_cast<const OptimizerStep*>(nullptr));

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
