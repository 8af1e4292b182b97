// Gathering and scattering, and masking.
#pragma once

#include "core/args/index_args.h"
#include "core/kernels/kernel.h"

namespace dl::kernels {

// out[.., i, ..] = input[.., index[i], ..]. All are contiguous; index is int64. If an index is out
// of range, the CPU throws kIndex with the first one and writes nothing. CUDA writes zeros for it,
// and the next synchronize() throws kIndex.
DL_KERNEL(void, index_select,
          (const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out))
// out[.., index[i], ..] += grad[.., i, ..], in the order of i. All are contiguous; the caller has
// filled `out` with zeros.
DL_KERNEL(void, index_select_backward,
          (const Tensor& grad, std::int64_t dim, const Tensor& index, const Tensor& out))
// out = mask ? input * scale : 0, element by element. All are contiguous; mask is bool.
DL_KERNEL(void, mask_scale,
          (const Tensor& input, const Tensor& mask, double scale, const Tensor& out))

// offsets += index * by.step, element by element. Both are int64 and have the same shape. by.size
// is first added to a negative index.
DL_KERNEL(void, add_offsets, (const Indexed& by, const Tensor& index, const Tensor& offsets))
// out[i] = the element of source's storage that is index[i] * by.step elements after source[i]. All
// three have the same shape.
DL_KERNEL(void, gather_elements,
          (const Indexed& by, const Tensor& source, const Tensor& index, const Tensor& out))
// Combines source[i], as `how` says, with the element of target's storage that is index[i] *
// by.step elements after target[i]. All three have the same shape, target and source the same
// dtype. Along dimension `disjoint_dim`, no two elements write to the same address, so threads may
// divide it; -1 if there is no such dimension.
DL_KERNEL(void, scatter_elements,
          (const Indexed& by, const Tensor& target, const Tensor& index, const Tensor& source,
           ScatterMode how, std::int64_t disjoint_dim))
// out [true elements, dims] int64 receives the indices of the true elements of a contiguous bool
// tensor, in row-major order; it is not empty.
DL_KERNEL(void, nonzero, (const Tensor& mask, const Tensor& out))

}  // namespace dl::kernels
