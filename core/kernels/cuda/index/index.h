// The kernels of core/kernels/cpu/index/index.h. An index out of range is reported as a fault
// (fault.h) and gives zeros.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

void index_select(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out);
void index_select_backward(const Tensor& grad, std::int64_t dim, const Tensor& index,
                           const Tensor& out);
void mask_scale(const Tensor& input, const Tensor& mask, double scale, const Tensor& out);

}  // namespace dl::kernels::cuda
