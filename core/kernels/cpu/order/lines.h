// Loops over the lines of tensors along one dimension.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {

// Walks over the lines along a dimension: the offsets of a line's first elements.
template <std::size_t N>
StridedLoop<N> lines_of(const Shape& shape, std::array<Strides, N> strides, std::int64_t dim) {
  Shape kept = shape;
  kept[static_cast<std::size_t>(dim)] = 1;
  for (Strides& each : strides) each[static_cast<std::size_t>(dim)] = 0;
  return make_loop<N>(kept, strides);
}

}  // namespace dl::kernels::cpu
