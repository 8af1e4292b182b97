// Gathering and scattering, and masking.
#pragma once

#include "core/args/place_args.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// out[.., i, ..] = input[.., index[i], ..]. input and out are contiguous, index is contiguous
// int64. Throws kIndex with the first index out of range, and then writes nothing.
DL_KERNEL(void, index_select,
          (const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out))
// out[.., index[i], ..] += grad[.., i, ..], in the order of i. All contiguous; `out` is zeroed
// first.
DL_KERNEL(void, index_select_backward,
          (const Tensor& grad, std::int64_t dim, const Tensor& index, const Tensor& out))
// out = mask ? input * scale : 0, element by element; contiguous, mask of bool.
DL_KERNEL(void, mask_scale,
          (const Tensor& input, const Tensor& mask, double scale, const Tensor& out))

// offsets += index * step; both have one shape.
DL_KERNEL(void, add_offsets, (const Indexed& by, const Tensor& index, const Tensor& places))
// out[i] = the element at offset(source[i]) + index[i] * step. All three have the same shape.
DL_KERNEL(void, gather_elements,
          (const Indexed& by, const Tensor& source, const Tensor& index, const Tensor& out))
// Combines the element at offset(target[i]) + index[i] * step with source[i] by `how`. `apart`: a
// dimension along which two elements never write to the same address, so that threads may divide
// it; -1: none. Target and source have one dtype.
DL_KERNEL(void, scatter_elements,
          (const Indexed& by, const Tensor& target, const Tensor& index, const Tensor& source,
           PlaceWrite how, std::int64_t apart))
// The indices of the true elements of a contiguous bool tensor, in row-major order: int64 [count,
// dims].
DL_KERNEL(Tensor, nonzero, (const Tensor& mask))

}  // namespace dl::kernels
