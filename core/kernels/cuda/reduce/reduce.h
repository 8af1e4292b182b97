// As core/kernels/cpu/reduce/reduce.h. The same bits on every run on one kind of device.
#pragma once

#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void reduce(ReduceFn fn, const Tensor& input, double p, const Tensor& out);
void extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
             const Tensor& indices);
void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out);

// The columns' sums of a row-major [rows, columns] in memory, written or added to out[columns]:
// gradients of biases.
void sum_columns(const void* in, std::int64_t rows, std::int64_t columns, bool accumulate,
                 const Tensor& out);

}  // namespace dl::kernels::cuda
