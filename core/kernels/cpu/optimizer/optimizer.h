// Optimizer steps over many parameters in one call. The threads divide the concatenation of all
// parameters, so that a model of many small ones costs one parallel region (or none).
#pragma once

#include <span>

#include "core/args/optimizer_args.h"
#include "core/device/stream.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cpu {

// `device` is the device of all tensors; `dtype` is f32 or f64.
void optimizer_step(Device device, DType dtype, std::span<const OptimizerTensor> tensors,
                    const OptimizerStep& step, const OptimizerScalars& scalars);

}  // namespace dl::kernels::cpu
