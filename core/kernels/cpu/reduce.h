// Reductions. Each result is one sum in one order, whatever the number of threads.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out has input's shape with the size of every reduced dimension 1. float16, bfloat16 and float32
// are summed in float64, integers in int64; out's dtype is the input's or, for integers and bool,
// int64. Floating sums are divided by `divisor`.
void sum(const Tensor& input, double divisor, const Tensor& out);
// Largest element along a dimension and the first index that has it; NaN is the largest. Both
// outputs have size 1 there; the dimension is not empty.
void max(const Tensor& input, std::int64_t dim, const Tensor& values, const Tensor& indices);
// out, filled with zeros, gets each gradient where indices says.
void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out);

}  // namespace dl::kernels::cpu
