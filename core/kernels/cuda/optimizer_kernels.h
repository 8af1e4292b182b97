// Steps of optimizers and gradient scaling over lists of tensors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/cuda/tensor_list.h"
#include "core/kernels/optimizer_args.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Pointers: parameter, gradient, momentum (or null). Mark: the tensor's first step.
void sgd_launch(DType dtype, const TensorList<3>& list, int blocks, const SgdStep& step,
                const OptimizerScalars& scalars, cudaStream_t stream);
// Pointers: parameter, gradient, mean, square, step count (f32).
void adam_launch(DType dtype, const TensorList<5>& list, int blocks, const AdamStep& step,
                 const OptimizerScalars& scalars, cudaStream_t stream);
// Adds one to the step count of tensors [first, tensors), unless an infinity was found.
void count_steps_launch(const TensorList<5>& list, int tensors, const OptimizerScalars& scalars,
                        cudaStream_t stream);

// Pointers: gradient. Mark: its dtype.
void unscale_launch(const TensorList<1>& list, int blocks, const float* inverse_scale,
                    float* found_inf, cudaStream_t stream);
void update_scale_launch(float* scale, std::int32_t* growth_tracker, const float* found_inf,
                         double growth_factor, double backoff_factor, std::int64_t growth_interval,
                         cudaStream_t stream);

}  // namespace dl::kernels::cuda
