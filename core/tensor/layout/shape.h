// Arithmetic on shapes and strides: counting, layouts, broadcasting, and which views exist.
//
// All functions are pure. A function that may throw takes the operation's name for the error text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/tensor/dims.h"
#include "core/tensor/dtype.h"

namespace dl {

enum class MemoryFormat : std::uint8_t {
  kContiguous,    // row-major
  kChannelsLast,  // shape [N, C, H, W], elements in the order [N, H, W, C]
  kPreserve,      // the input's
};

// The product of the sizes; 1 for rank 0. Throws kShape for a negative size, and if the product of
// the nonzero sizes is above 2^63 - 1, so that the strides of an empty tensor do not overflow
// either.
std::int64_t element_count(const Shape& shape, std::string_view op);
// The bytes of that many elements. Throws like element_count(), and for more than 2^63 - 1 bytes.
std::size_t byte_count(const Shape& shape, DType dtype, std::string_view op);
// The distance in elements from the first element to one past the last; 0 for an empty shape.
// Throws kShape for a negative stride and above 2^63 - 1.
std::int64_t strided_extent(const Shape& shape, const Strides& strides, std::string_view op);

Strides contiguous_strides(const Shape& shape);
// For four dimensions only; throws kShape otherwise.
Strides channels_last_strides(const Shape& shape);
// Dimensions of size 1 and empty tensors do not count.
bool is_contiguous(const Shape& shape, const Strides& strides) noexcept;
bool is_channels_last(const Shape& shape, const Strides& strides) noexcept;
// True if every element has its own address and the elements fill a block without gaps.
bool is_dense(const Shape& shape, const Strides& strides);
// Dense strides in the dimension order of the operands: the strides of an element-wise operation's
// result in PyTorch. Of two dimensions, the first operand whose strides differ along them
// determines the order; strides of 0 are ignored, and undecided dimensions are row-major. Each
// operand's strides are broadcast to `shape`.
Strides dense_strides(const Shape& shape, std::span<const Strides> operands);
// True if both strides address the same elements; dimensions of size 1 do not count.
bool are_same_addresses(const Shape& shape, const Strides& a, const Strides& b) noexcept;
// The memory format in which PyTorch computes an image. Strides that are both row-major and
// channels-last, as with one channel, count as row-major.
MemoryFormat suggested_format(const Shape& shape, const Strides& strides) noexcept;

// `dim` in [-rank, rank), negative ones count from the end; rank 0 allows 0 and -1. Throws kIndex.
std::size_t wrap_dim(std::int64_t dim, std::size_t rank, std::string_view op);

// The common shape of two operands (NumPy's rules). Throws kShape and names both.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);
// Strides that read a tensor as `target`: 0 along broadcast dimensions. `shape` must be
// broadcastable.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);

// Replaces one -1 by the size that gives `numel` elements. Throws kShape.
Shape infer_shape(const Shape& shape, std::int64_t numel, std::string_view op);
// Strides that view the same memory in the shape `target`, or nullopt if that needs a copy.
std::optional<Strides> view_strides(const Shape& shape, const Strides& strides,
                                    const Shape& target);

}  // namespace dl
