// Work on the same elements as a kernel's, which the kernel calls part by part while the elements
// are in the cache.
//
// Any thread may call it, for different parts at the same time.
#pragma once

#include <cstdint>
#include <functional>

namespace dl {

// For elements [first, first + count) of dense tensors, counted in the order of memory. It must not
// throw.
using PartWork = std::function<void(std::int64_t first, std::int64_t count)>;

// Null: none.
struct PartHooks {
  const PartWork* before = nullptr;  // once for each element of the first input, before it is read
  const PartWork* after = nullptr;   // once for each element of the main result, when it is written

  void reads(std::int64_t first, std::int64_t count) const {
    if (before != nullptr) [[unlikely]]
      (*before)(first, count);
  }
  void wrote(std::int64_t first, std::int64_t count) const {
    if (after != nullptr) [[unlikely]]
      (*after)(first, count);
  }
  // They do not change what the kernel itself does.
  bool operator==(const PartHooks&) const noexcept { return true; }
};

}  // namespace dl
