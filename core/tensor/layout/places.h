// places_of: the places of a strided tensor's elements in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor/layout/shape.h"

namespace dl {

// The places of the elements, in elements from the memory's beginning, in row-major order.
inline std::vector<std::int64_t> places_of(std::int64_t first, const Shape& sizes,
                                           const Strides& strides) {
  std::vector<std::int64_t> places{first};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<std::int64_t> next;
    next.reserve(places.size() * static_cast<std::size_t>(sizes[d]));
    for (const std::int64_t place : places) {
      for (std::int64_t i = 0; i < sizes[d]; ++i) next.push_back(place + i * strides[d]);
    }
    places = std::move(next);
  }
  return places;
}

}  // namespace dl
