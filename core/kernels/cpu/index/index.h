// Gathering and scattering along a dimension, and masking.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// out[.., i, ..] = input[.., index[i], ..]. input and out are contiguous, index is contiguous
// int64. Throws kIndex with the first index out of range, and then writes nothing.
void index_select(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out);
// out[.., index[i], ..] += grad[.., i, ..], in the order of i. All contiguous; `out` is zeroed
// first.
void index_select_backward(const Tensor& grad, std::int64_t dim, const Tensor& index,
                           const Tensor& out);
// out = mask ? input * scale : 0, element by element; contiguous, mask of bool.
void mask_scale(const Tensor& input, const Tensor& mask, double scale, const Tensor& out);

}  // namespace dl::kernels::cpu
