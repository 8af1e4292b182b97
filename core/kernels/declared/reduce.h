// Reductions. The order of merging does not depend on the number of threads.
#pragma once

#include "core/kernels/kernel.h"
#include "core/reductions/list.h"

namespace dl::kernels {

// out has input's shape, with size 1 in reduced dimensions, and the row's result dtype. float16,
// bfloat16 and float32 are merged in float32 within blocks and in float64 across blocks, float64 in
// float64, and integers in int64, which wraps around.
DL_KERNEL(void, reduce, (ReduceFn fn, const Tensor& input, double p, const Tensor& out))
// The extreme along a dimension and its first index; NaN counts as the extreme. Both outputs have
// size 1 in the dimension, which is not empty.
DL_KERNEL(void, extreme,
          (ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
           const Tensor& indices))
// Fills `out` with zeros, then stores each element of grad at its index along `dim`. `indices` has
// grad's shape; no two indices of one line are equal.
DL_KERNEL(void, max_backward,
          (const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out))

}  // namespace dl::kernels
