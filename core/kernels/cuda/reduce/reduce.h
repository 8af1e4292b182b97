// The kernels of core/kernels/cpu/reduce/reduce.h. Runs on one kind of device give the same bits.
#pragma once

#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void reduce(ReduceFn fn, const Tensor& input, double p, const Tensor& out);
void extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
             const Tensor& indices);
void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out);

// Writes or adds the column sums of a row-major [rows, columns] array to out[columns]: gradients of
// biases.
void sum_columns(const void* in, std::int64_t rows, std::int64_t columns, bool accumulate,
                 const Tensor& out);

}  // namespace dl::kernels::cuda
