// Optimizer steps, and the two kernels of gradient scaling (nn/amp/grad_scaler.h).
#pragma once

#include <span>

#include "core/args/optimizer_args.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// A step over many parameters in one call. On CPUs the threads divide the concatenation of all
// parameters, so that a model of many small ones costs one parallel region (or none). `device` is
// the device of all tensors; `dtype` is f32 or f64.
DL_KERNEL(void, optimizer_step,
          (Device device, DType dtype, std::span<const OptimizerTensor> tensors,
           const OptimizerStep& step, const OptimizerScalars& scalars))

// Multiplies every gradient by the 0-d f32 inverse_scale, and sets the 0-d f32 found_inf to 1 if an
// element was infinite or NaN, and otherwise leaves it unchanged. Gradients are floating, any
// strides without overlap.
DL_KERNEL(void, amp_unscale,
          (const Tensor& inverse_scale, std::span<const Tensor> gradients, const Tensor& found_inf))
// The new scale (0-d f32) and the number of steps in a row without an infinity (0-d i32):
// multiplied by the backoff factor if found_inf is not 0, and by the growth factor at the end of
// each interval unless that gives infinity.
DL_KERNEL(void, amp_update_scale,
          (const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
           const ScaleUpdate& update))

}  // namespace dl::kernels
