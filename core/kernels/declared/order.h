// Cumulative sums and products, and sorting, along a dimension.
#pragma once

#include "core/kernels/kernel.h"

namespace dl::kernels {

// out[i] = sum of input[0..i], or of input[i..] if `reverse`. Floating elements are summed in
// float64 and rounded once each, integers in int64. out has input's shape and is dense.
DL_KERNEL(void, cumsum, (const Tensor& input, std::int64_t dim, bool reverse, const Tensor& out))
// out[i] = product of input[0..i], with cumsum()'s dtypes; and the gradient of the input from the
// gradient of the result, both of one shape.
DL_KERNEL(void, cumprod, (const Tensor& input, std::int64_t dim, const Tensor& out))
DL_KERNEL(void, cumprod_backward,
          (const Tensor& grad, const Tensor& input, std::int64_t dim, const Tensor& out))
// The lower median along a dimension and its index. If there is a NaN, the result is NaN;
// `ignore_nan` ignores NaNs unless there is nothing else. The outputs have size 1 in that
// dimension.
DL_KERNEL(void, median,
          (const Tensor& input, std::int64_t dim, bool ignore_nan, const Tensor& values,
           const Tensor& indices))
// Sorted values and their indices; equal values keep their order, and NaN is the largest. The
// outputs have input's shape.
DL_KERNEL(void, sort,
          (const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
           const Tensor& indices))
// The first elements of sort() along the dimension, as many as the outputs hold.
DL_KERNEL(void, topk,
          (const Tensor& input, std::int64_t dim, bool largest, const Tensor& values,
           const Tensor& indices))

}  // namespace dl::kernels
