// How an index leads to elements of a tensor.
#pragma once

#include <cstdint>
#include <string_view>

namespace dl {

struct Indexed {
  std::string_view op;      // for texts
  std::int64_t dim = 0;     // the dimension that is indexed, for texts
  std::int64_t size = 0;    // an index is in [0, size)
  std::int64_t step = 1;    // elements from one index to the next
  bool from_end = false;    // indices from -size on count from the end
  bool is_checked = false;  // all are known to be in range
};

// What a write does with the element that is there. NaN is the largest and the smallest.
enum class PlaceWrite : std::uint8_t { kSet, kAdd, kMultiply, kKeepLarger, kKeepSmaller };

}  // namespace dl
