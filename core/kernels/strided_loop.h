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
// Orders and joins the dimensions of `count` operands in place.
void plan(Dims& shape, Dims* strides, std::size_t count);
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
// dimension; offsets are in elements.
template <std::size_t N, typename Run>
void walk(const StridedLoop<N>& loop, std::int64_t begin, std::int64_t end, const Run& run) {
  if (begin >= end) return;
  const std::size_t inner = loop.shape.size() - 1;
  const std::int64_t row = loop.shape[inner];
  Dims index(inner, 0);
  std::array<std::int64_t, N> offsets{};
  std::int64_t rest = begin / row;
  for (std::size_t d = inner; d-- > 0;) {
    index[d] = rest % loop.shape[d];
    rest /= loop.shape[d];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += index[d] * loop.strides[k][d];
  }
  std::int64_t column = begin % row;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t length = std::min(row - column, end - at);
    std::array<std::int64_t, N> first = offsets;
    for (std::size_t k = 0; k < N; ++k) first[k] += column * loop.strides[k][inner];
    run(first, length);
    at += length;
    column = 0;
    for (std::size_t d = inner; d-- > 0;) {
      for (std::size_t k = 0; k < N; ++k) offsets[k] += loop.strides[k][d];
      if (++index[d] < loop.shape[d]) break;
      for (std::size_t k = 0; k < N; ++k) offsets[k] -= index[d] * loop.strides[k][d];
      index[d] = 0;
    }
  }
}

}  // namespace dl::kernels
