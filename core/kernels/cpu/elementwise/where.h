#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out = condition ? yes : no. The condition is bool, the others have one dtype; inputs are
// broadcast to the output's shape.
void where(const Tensor& condition, const Tensor& yes, const Tensor& no, const Tensor& out);

}  // namespace dl::kernels::cpu
