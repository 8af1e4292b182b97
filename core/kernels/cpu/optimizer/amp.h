// The two kernels of gradient scaling (nn/amp/grad_scaler.h).
#pragma once

#include <span>

#include "core/args/optimizer_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels {

namespace cpu {

// Multiplies every gradient by the 0-d f32 inverse_scale, and sets the 0-d f32 found_inf to 1 if an
// element was infinite or NaN, and otherwise leaves it unchanged. Gradients are floating, any
// strides without overlap.
void amp_unscale(const Tensor& inverse_scale, std::span<const Tensor> gradients,
                 const Tensor& found_inf);
// The new scale (0-d f32) and the number of steps in a row without an infinity (0-d i32):
// multiplied by the backoff factor if found_inf is not 0, and by the growth factor at the end of
// each interval unless that gives infinity.
void amp_update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                      const ScaleUpdate& update);

}  // namespace cpu
}  // namespace dl::kernels
