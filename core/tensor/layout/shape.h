// Arithmetic on shapes and strides: counting, layouts, broadcasting, and which views exist.
//
// All functions are pure. Those that can refuse take the name of the operation for the error's
// text.
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
  kChannelsLast,  // [N, C, H, W] whose elements lie as [N, H, W, C]
  kPreserve,      // as the input has it
};

// Product of the sizes; 1 for no dimension. Throws kShape for a negative size, and where the
// product of those that are not 0 is above 2^63 - 1, so that an empty tensor's strides are numbers
// too.
std::int64_t element_count(const Shape& shape, std::string_view op);
// What so many elements take. Throws as element_count, and for more than 2^63 - 1 bytes.
std::size_t byte_count(const Shape& shape, DType dtype, std::string_view op);
// How many places lie from the first element to the last, both counted; 0 for no element. Throws
// kShape for a negative stride and for more than 2^63 - 1.
std::int64_t strided_extent(const Shape& shape, const Strides& strides, std::string_view op);

Strides contiguous_strides(const Shape& shape);
// For four dimensions only; throws kShape otherwise.
Strides channels_last_strides(const Shape& shape);
// Dimensions of size 1 and empty tensors do not count.
bool is_contiguous(const Shape& shape, const Strides& strides) noexcept;
bool is_channels_last(const Shape& shape, const Strides& strides) noexcept;
// True where every element has an address of its own and the elements fill a block without gaps.
bool is_dense(const Shape& shape, const Strides& strides);
// The strides without gaps whose dimensions lie in the order of the operands': what PyTorch gives
// an element-wise operation's result. The first operand in which two dimensions have different
// strides decides; a stride of 0 decides nothing, and what is left open is row-major. Each
// operand's strides are broadcast to `shape`.
Strides dense_strides(const Shape& shape, std::span<const Strides> operands);
// Whether both strides lead to the same places: those of dimensions of size 1 do not count.
bool are_same_places(const Shape& shape, const Strides& a, const Strides& b) noexcept;
// The format in which PyTorch computes an image: channels-last only if the strides say so beyond
// doubt. Strides that are row-major as well, as those of one channel, count as row-major.
MemoryFormat suggested_format(const Shape& shape, const Strides& strides) noexcept;

// `dim` in [-rank, rank), counted from the end where negative; rank 0 takes 0 and -1. Throws
// kIndex.
std::size_t wrap_dim(std::int64_t dim, std::size_t rank, std::string_view op);

// The common shape of two operands (NumPy's rules). Throws kShape and names both.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);
// Strides that read a tensor as `target`: 0 along broadcast dimensions. `shape` must be
// broadcastable.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);

// Replaces one -1 by what makes `numel` elements. Throws kShape.
Shape infer_shape(const Shape& shape, std::int64_t numel, std::string_view op);
// Strides with which the same memory reads as `target`, or nullopt where that takes a copy.
std::optional<Strides> view_strides(const Shape& shape, const Strides& strides,
                                    const Shape& target);

}  // namespace dl
