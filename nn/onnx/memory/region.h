// Region: elements of a block of memory, as the strides of a tensor name them; and its Box, which
// says the same in digits, so that regions of one block can be compared, cut and joined.
//
// An address is written as digits: address = sum of digit i times level i, in which the levels are
// strides, the largest first, each a multiple of the next. A region is a box if each of its digits
// takes the numbers of one range: a slice, a transposed matrix, an image in either memory order are
// boxes; overlapping windows are not. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor/dims.h"
#include "core/tensor/tensor.h"

namespace dl::onnx {

struct Region {
  std::int64_t first = 0;  // in elements, from the block's beginning
  Shape sizes;
  Strides strides;

  std::int64_t numel() const noexcept;
  std::int64_t end() const noexcept;  // behind the last element
  // Whether the tensors have the same elements in the same order.
  bool same_as(const Region& other) const noexcept;
};

// Joins neighbouring dimensions if one stride steps over both, and drops dimensions of size 1. The
// elements and their order stay.
Region united(const Region& region);

using Levels = std::vector<std::int64_t>;

// The levels for all of the regions; none if one stride is not a multiple of the next.
std::optional<Levels> levels_of(std::span<const Region> regions);

struct Box {
  std::vector<std::int64_t> starts;  // of each level's digit
  std::vector<std::int64_t> counts;
  // For each dimension of the region, the levels that it runs through, the largest first; none for
  // a size of 1 and a stride of 0.
  std::vector<std::vector<std::size_t>> dims;

  bool meets(const Box& other) const noexcept;
  bool contains(const Box& other) const noexcept;
  Box common_with(const Box& other) const;  // they meet; without dims
};

std::optional<Box> box_of(const Region& region, const Levels& levels);
bool are_boxes(std::span<const Region> regions);  // with common levels

// The addresses of a region's elements, in their order.
std::vector<std::int64_t> addresses_of(const Region& region);
// Which elements of `whole`, in its order, those of `region` are: int64, with the region's shape.
// None if one is no element of `whole`.
std::optional<Tensor> positions_in(const Region& whole, const Region& region);

}  // namespace dl::onnx
