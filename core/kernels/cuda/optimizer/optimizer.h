// The kernels of core/kernels/cpu/optimizer/optimizer.h and amp.h, on device pointers. Learning
// rate, scale and step counts may be in device memory.
#pragma once

#include <span>

#include "core/args/optimizer_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void optimizer_step(Device device, DType dtype, std::span<const OptimizerTensor> tensors,
                    const OptimizerStep& step, const OptimizerScalars& scalars);

void amp_unscale(const Tensor& inverse_scale, std::span<const Tensor> gradients,
                 const Tensor& found_inf);
void amp_update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                      const ScaleUpdate& update);

}  // namespace dl::kernels::cuda
