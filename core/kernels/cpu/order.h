// Running sums and order along a dimension.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out[i] = sum of input[0..i], or of input[i..] if `reverse`. Floating elements are summed in
// float64 and rounded once each, integers in int64. out has input's shape and is dense.
void cumsum(const Tensor& input, std::int64_t dim, bool reverse, const Tensor& out);
// Values in order and where they stood; equal ones keep their order. NaN is the largest. The
// outputs have input's shape.
void sort(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
          const Tensor& indices);
// The first of sort() along the dimension, as many as the outputs hold.
void topk(const Tensor& input, std::int64_t dim, bool largest, const Tensor& values,
          const Tensor& indices);

}  // namespace dl::kernels::cpu
