// Copies between tensors of one shape, any strides and dtypes, and filling.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// `source` has the destination's shape (broadcast dimensions have stride 0). They must not overlap
// unless they are the same view.
void copy(const Tensor& source, const Tensor& destination);
void fill(const Tensor& destination, Scalar value);

}  // namespace dl::kernels::cpu
