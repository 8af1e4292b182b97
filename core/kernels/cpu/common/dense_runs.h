// Vectorised loops over dense runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/parallel.h"
#include "core/kernels/formulas/scalars.h"

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

namespace dl::kernels {

// y = max(0, y), after kernels that do not fuse it; NaN stays NaN.
template <typename T>
void relu_in_place(std::int64_t n, T* y) {
  parallel_for(n, 16 * 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = formulas::Relu::value(y[i]);
  });
}

}  // namespace dl::kernels
