// dlbench's input values: whole numbers that every dtype represents, computed from rank and place.
// So a rank knows the exact result without communication, and finds a slice in the wrong place. The
// expected result of a reduction is computed from its definition, not with the library's
// arithmetic. Pure functions.
#pragma once

#include <cstddef>

#include "collectives/api/process_group.h"
#include "core/tensor/dtype.h"

namespace dl::collectives::bench {

// to[i] = the value of `rank` at place from + i.
void fill(DType dtype, int rank, std::byte* to, std::size_t count, std::size_t from);

// to[i] = the reduction of the values of all `ranks` at place from + i, rounded once.
void fill_reduced(DType dtype, ReduceOp op, int ranks, std::byte* to, std::size_t count,
                  std::size_t from);

// Number of elements that differ.
std::size_t count_different(DType dtype, const std::byte* a, const std::byte* b, std::size_t count);

}  // namespace dl::collectives::bench
