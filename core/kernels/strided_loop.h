// StridedLoop: one walk over several tensors of one shape, whatever their strides.
//
// Dimensions are ordered by the first operand's strides (the output's) and joined where all
// operands allow it, so that dense operands of one layout become a single run, channels-last ones
// too.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor/dims.h"

namespace dl::kernels {

template <std::size_t N>
struct StridedLoop {
  Dims shape;                   // outermost first, without sizes of 1; never empty
  std::array<Dims, N> strides;  // in elements, for each operand
  std::int64_t count = 1;

  std::int64_t inner_size() const noexcept { return shape.back(); }
  std::int64_t inner_stride(std::size_t operand) const noexcept { return strides[operand].back(); }
};

namespace detail {
inline constexpr std::size_t kMaxOperands = 4;
// Orders and joins the dimensions of `count` operands in place.
void plan(Dims& shape, Dims* strides, std::size_t count);
using RunBody = void (*)(const void* body, const std::int64_t* offsets, std::int64_t length);
void walk(const Dims& shape, const Dims* strides, std::size_t count, std::int64_t begin,
          std::int64_t end, RunBody call, const void* body);
}  // namespace detail

// `strides` of each operand must be broadcast to `shape` already.
template <std::size_t N>
StridedLoop<N> make_loop(const Shape& shape, const std::array<Strides, N>& strides) {
  StridedLoop<N> loop{shape, strides, 1};
  for (const std::int64_t size : shape) loop.count *= size;
  detail::plan(loop.shape, loop.strides.data(), N);
  return loop;
}

// run(offsets, length): for the elements [begin, end) of the walk, in runs along the innermost
// dimension; offsets are in elements, one for each operand. Compiled once; a run is called through
// a pointer.
template <std::size_t N, typename Run>
void walk(const StridedLoop<N>& loop, std::int64_t begin, std::int64_t end, const Run& run) {
  static_assert(N <= detail::kMaxOperands);
  detail::walk(
      loop.shape, loop.strides.data(), N, begin, end,
      [](const void* body, const std::int64_t* offsets, std::int64_t length) {
        (*static_cast<const Run*>(body))(offsets, length);
      },
      &run);
}

}  // namespace dl::kernels
