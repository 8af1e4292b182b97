// Steps of optimizers and gradient scaling over lists of tensors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <variant>

#include "core/args/optimizer_args.h"
#include "core/kernels/cuda/common/tensor_list.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Pointers: parameter, gradient, state, step counts. Mark: the tensor's first step.
template <typename Step>
inline constexpr int kPointersOf = 2 + Step::kState + Step::kCounts;
template <typename Step>
using ListOf = TensorList<kPointersOf<Step>>;

// The kernels of one kind of step.
template <typename Step>
struct StepLaunches {
  // Increments the counts of the list's first `tensors`, unless an infinity was found. Null for a
  // step without counts.
  void (*raise_counts)(const ListOf<Step>& list, int tensors, const Step& step,
                       const OptimizerScalars& scalars, cudaStream_t stream);
  void (*update)(DType dtype, const ListOf<Step>& list, int blocks, const Step& step,
                 const OptimizerScalars& scalars, cudaStream_t stream);
};

// A base StepLaunches<Step> for each kind of step in the variant.
template <typename Variant>
struct LaunchesOf;
template <typename... Steps>
struct LaunchesOf<std::variant<Steps...>> : StepLaunches<Steps>... {};
extern const LaunchesOf<OptimizerStep> optimizer_launches;

// Pointers: gradient. Mark: its dtype.
void unscale_launch(const TensorList<1>& list, int blocks, const float* inverse_scale,
                    float* found_inf, cudaStream_t stream);
void update_scale_launch(float* scale, std::int32_t* growth_tracker, const float* found_inf,
                         double growth_factor, double backoff_factor, std::int64_t growth_interval,
                         cudaStream_t stream);

}  // namespace dl::kernels::cuda
