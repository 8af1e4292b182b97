// Reductions. Each result is merged in one order, whatever the number of threads.
#pragma once

#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out has input's shape with the size of every reduced dimension 1, and the dtype that the row
// gives. Floating elements are merged in float32 (float64 for those) within blocks and in float64
// beyond, integers in int64, which wraps around.
void reduce(ReduceFn fn, const Tensor& input, double p, const Tensor& out);
// The extreme along a dimension and the first index that has it; NaN wins. Both outputs have size 1
// there; the dimension is not empty.
void extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
             const Tensor& indices);
// out, filled with zeros, gets each element of grad where indices, of grad's shape, says along a
// dimension. The indices of one line differ.
void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out);

}  // namespace dl::kernels::cpu
