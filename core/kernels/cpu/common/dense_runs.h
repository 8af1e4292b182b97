// Vectorised loops over dense runs that move elements without computing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::kernels::cpu {

// out = condition ? yes : no, of elements of `width` bytes: 1, 2, 4 or 8. A step is 1, or 0 for a
// broadcast scalar. The output may be one of the operands.
struct ChooseRun {
  const bool* condition;
  const void* yes;
  std::int64_t yes_step;
  const void* no;
  std::int64_t no_step;
  void* out;
  std::int64_t count;
};
void choose(std::size_t width, const ChooseRun& run) noexcept;

// True if one of `count` indices is outside [least, size).
bool has_stray(const std::int64_t* index, std::int64_t count, std::int64_t least,
               std::int64_t size) noexcept;

}  // namespace dl::kernels::cpu
