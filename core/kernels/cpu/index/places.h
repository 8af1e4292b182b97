// Reading and writing elements that an index names. Tensors have any strides, also of 0 for what is
// the same along a dimension; an index is int64. Throws kIndex and names an index that is out of
// range; the target of a write is as before then.
#pragma once

#include "core/args/place_args.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

// places += index * step, of one shape.
void add_places(const Indexed& by, const Tensor& index, const Tensor& places);
// out[i] = source[i], moved on by index[i] * step elements, for each place i of out's shape, which
// all three have.
void read_places(const Indexed& by, const Tensor& source, const Tensor& index, const Tensor& out);
// The reverse: target[i], moved on by index[i] * step elements, is set to source[i], or to what
// `how` makes of both. Elements that differ in dimension `apart` are written to different places;
// -1 where no dimension is known to be so. Target and source have one dtype.
void write_places(const Indexed& by, const Tensor& target, const Tensor& index,
                  const Tensor& source, PlaceWrite how, std::int64_t apart);
// The indices of the true elements of a contiguous bool tensor, row by row: int64 [count, dims].
Tensor nonzero(const Tensor& mask);

}  // namespace dl::kernels::cpu
