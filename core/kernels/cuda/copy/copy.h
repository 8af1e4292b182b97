// The kernels of core/kernels/cpu/copy/copy.h on one CUDA device.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void copy(const Tensor& source, const Tensor& destination);
void fill(const Tensor& destination, Scalar value);

}  // namespace dl::kernels::cuda
