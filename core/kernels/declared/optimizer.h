// Kernels over lists of tensors: optimizer steps, gradient scaling (nn/amp/grad_scaler.h), gradient
// clipping (nn/utils/clip_grad.h) and averages of weights (nn/optim/swa_utils.h).
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

// The tensors of a list below are dense: contiguous or channels-last. On CUDA, a launch takes as
// many of them as fit, of any dtypes.

// The norm of order p, more than 0, of all floating gradients as one vector: 0-d, f32 or f64. Each
// gradient is computed in f64 if it is f64, otherwise in f32; their sum is f64.
DL_KERNEL(void, grad_norm, (std::span<const Tensor> gradients, double p, const Tensor& norm))
// Multiplies the gradients by max_norm / (norm + 1e-6) if that is less than 1, or NaN.
DL_KERNEL(void, clip_grad_norm,
          (std::span<const Tensor> gradients, double max_norm, const Tensor& norm))
// Clamps each element to [-bound, bound]; NaN stays NaN. `device` is that of all gradients.
DL_KERNEL(void, clip_grad_value, (Device device, std::span<const Tensor> gradients, double bound))
// Takes values[i] into averages[i], which has its shape, strides and dtype. kCopy accepts every
// dtype, the others a floating one. `count`, 0-d i64: how many values the averages have taken in.
DL_KERNEL(void, average_weights,
          (std::span<const Tensor> averages, std::span<const Tensor> values, const Tensor& count,
           const AverageStep& step))

}  // namespace dl::kernels
