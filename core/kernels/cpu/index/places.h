// Gather and scatter kernels. Tensors have any strides, 0 along broadcast dimensions; indices are
// int64. Throws kIndex with an index out of range; the target of a write is then unchanged.
#pragma once

#include "core/args/place_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// places += index * step, of one shape.
void add_places(const Indexed& by, const Tensor& index, const Tensor& places);
// out[i] = the element at offset(source[i]) + index[i] * step. All three have the same shape.
void read_places(const Indexed& by, const Tensor& source, const Tensor& index, const Tensor& out);
// Combines the element at offset(target[i]) + index[i] * step with source[i] by `how`. `apart`: a
// dimension along which two elements never write to the same address, so that threads may divide
// it; -1: none. Target and source have one dtype.
void write_places(const Indexed& by, const Tensor& target, const Tensor& index,
                  const Tensor& source, PlaceWrite how, std::int64_t apart);
// The indices of the true elements of a contiguous bool tensor, in row-major order: int64 [count,
// dims].
Tensor nonzero(const Tensor& mask);

}  // namespace dl::kernels::cpu
