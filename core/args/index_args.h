// How values of an index tensor address elements of another tensor.
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
  bool is_checked = false;  // the range of all indices was checked before
  bool operator==(const Indexed&) const = default;
};

// How a scatter combines a value with the element it finds. NaN counts as the largest and as the
// smallest number.
enum class ScatterMode : std::uint8_t { kSet, kAdd, kMultiply, kKeepLarger, kKeepSmaller };

}  // namespace dl
