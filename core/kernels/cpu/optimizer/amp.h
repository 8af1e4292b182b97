// The two kernels of gradient scaling (nn/amp/grad_scaler.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor/tensor.h"

namespace dl::kernels {

struct ScaleUpdate {
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
};

namespace cpu {

// Multiplies every gradient by the 0-d f32 inverse_scale, and sets the 0-d f32 found_inf to 1 where
// an element was infinite or NaN; leaves it as it is otherwise. Gradients are floating, any strides
// without overlap.
void amp_unscale(const Tensor& inverse_scale, std::span<const Tensor> gradients,
                 const Tensor& found_inf);
// The new scale (0-d f32) and the number of steps in a row without an infinity (0-d i32): backed
// off where found_inf is not 0, grown at the interval's end unless that is infinite.
void amp_update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                      const ScaleUpdate& update);

}  // namespace cpu
}  // namespace dl::kernels
