// StridedLoop: iterates over several tensors of one shape and any strides.
//
// Dimensions are sorted by the strides of the first operand (the output) and merged if all operands
// allow it, so that dense operands of one layout, also channels-last, become a single run.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor/tensor.h"

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
// Sorts and merges the dimensions of `count` operands in place.
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

// The two loops of a reduction: over the results, and over the elements of one result.
template <std::size_t N>
struct ReductionLoops {
  StridedLoop<N> kept;
  StridedLoop<1> reduced;
};

// `result` has size 1 in each dimension over which an input of `shape` is reduced. `input` and
// `kept` have strides for the same dimensions; those of kept[0] determine the order of results.
template <std::size_t N>
ReductionLoops<N> make_reduction_loops(const Shape& shape, const Strides& input,
                                       const Shape& result, const std::array<Strides, N>& kept) {
  Shape kept_shape;
  Shape reduced_shape;
  std::array<Strides, N> kept_strides;
  std::array<Strides, 1> reduced_strides;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != result[d]) {
      reduced_shape.push_back(shape[d]);
      reduced_strides[0].push_back(input[d]);
      continue;
    }
    kept_shape.push_back(shape[d]);
    for (std::size_t i = 0; i < N; ++i) kept_strides[i].push_back(kept[i][d]);
  }
  return {make_loop<N>(kept_shape, kept_strides), make_loop<1>(reduced_shape, reduced_strides)};
}

// True if both have one shape and one memory order, so that a flat loop pairs their elements.
inline bool same_layout(const Tensor& a, const Tensor& b) noexcept {
  if (a.sizes() != b.sizes()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  if (a.is_channels_last() && b.is_channels_last()) return true;
  return a.strides() == b.strides() && is_dense(a.sizes(), a.strides());
}

// Calls run(offsets, length) for the elements [begin, end) of the loop, in runs along the innermost
// dimension; offsets are in elements, one for each operand. The loop is compiled once and calls
// `run` through a pointer.
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
