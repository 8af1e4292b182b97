// split, cat, tile, roll, flip, pad and others that are composed of views and copies. All have a
// gradient. Negative dimensions count from the end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

// Views. Each piece has `size` elements along `dim`, the last one the rest. Or pass a list of
// sizes, whose sum is the dimension's size.
std::vector<Tensor> split(const Tensor& input, SizeNumber auto size, std::int64_t dim = 0) {
  return detail::split_evenly(input, static_cast<std::int64_t>(size), dim);
}
std::vector<Tensor> split(const Tensor& input, const Dims& sizes, std::int64_t dim = 0);
// At most `chunks` pieces of equal size; the last one may be smaller.
std::vector<Tensor> chunk(const Tensor& input, std::int64_t chunks, std::int64_t dim = 0);
// The slices along `dim`, each without that dimension.
std::vector<Tensor> unbind(const Tensor& input, std::int64_t dim = 0);
Tensor movedim(const Tensor& input, const DimList& source, const DimList& destination);
// The last two dimensions exchanged; x.T() reverses all dimensions.
Tensor mT(const Tensor& input);
// x.transpose(dim0, dim1).
Tensor swapaxes(const Tensor& input, std::int64_t dim0, std::int64_t dim1);
Tensor unflatten(const Tensor& input, std::int64_t dim, const Shape& sizes);
Tensor expand_as(const Tensor& input, const Tensor& other);
Tensor view_as(const Tensor& input, const Tensor& other);
Tensor reshape_as(const Tensor& input, const Tensor& other);
Tensor broadcast_to(const Tensor& input, const Shape& shape);
// Coordinate tensors of a grid, one for each dimension, as torch.meshgrid.
enum class GridIndexing : std::uint8_t { kIJ, kXY };
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                             GridIndexing indexing = GridIndexing::kIJ);

// The input in at least one, two or three dimensions: [n] becomes [1, n] and [1, n, 1], and [n, m]
// becomes [n, m, 1].
Tensor atleast_1d(const Tensor& input);
Tensor atleast_2d(const Tensor& input);
Tensor atleast_3d(const Tensor& input);
// In one dimension; a copy if the elements do not lie in order.
Tensor ravel(const Tensor& input);

// Copies.
// Concatenates along the columns (hstack; along the only dimension of vectors), the rows (vstack),
// or the third dimension (dstack). Inputs get the dimensions that they lack, as from atleast_1d(),
// atleast_2d() and atleast_3d(). Throws what cat() throws.
#define DL_STACK(name)                                                     \
  Tensor name(std::span<const Tensor> tensors);                            \
  inline Tensor name(const std::vector<Tensor>& tensors) {                 \
    return name(std::span<const Tensor>(tensors));                         \
  }                                                                        \
  inline Tensor name(std::initializer_list<Tensor> tensors) {              \
    return name(std::span<const Tensor>(tensors.begin(), tensors.size())); \
  }
DL_STACK(hstack)
DL_STACK(vstack)
DL_STACK(dstack)
#undef DL_STACK
// Repeats the whole tensor repeats[d] times along dimension d. `repeats` may have additional
// leading dimensions; for tile() it may also have fewer.
Tensor repeat(const Tensor& input, const Dims& repeats);
Tensor tile(const Tensor& input, const Dims& repeats);
// Repeats each slice along `dim`; without `dim`, each element of the flattened input.
Tensor repeat_interleave(const Tensor& input, std::int64_t repeats,
                         std::optional<std::int64_t> dim = {});
Tensor repeat_interleave(const Tensor& input, const Tensor& repeats,
                         std::optional<std::int64_t> dim = {});
// Reverses the order of the elements along `dims`.
Tensor flip(const Tensor& input, const Dims& dims);
// flip() along the columns (the second dimension), and along the rows (the first).
Tensor fliplr(const Tensor& input);
Tensor flipud(const Tensor& input);
// Moves elements by `shifts` along `dims`, cyclically; without `dims`, in the flattened input.
Tensor roll(const Tensor& input, const DimList& shifts, const DimList& dims = {});
// The lower (tril) and the upper (triu) triangle of matrices, 0 elsewhere. A positive `diagonal`
// moves the border to the right.
Tensor tril(const Tensor& input, std::int64_t diagonal = 0);
Tensor triu(const Tensor& input, std::int64_t diagonal = 0);
// A view of the diagonals of matrices, as the last dimension.
Tensor diagonal(const Tensor& input, std::int64_t offset = 0, std::int64_t dim1 = 0,
                std::int64_t dim2 = 1);
// The sum of a matrix's diagonal, a 0-d tensor.
Tensor trace(const Tensor& input);
// The diagonal of a matrix, or for a vector the matrix with that diagonal.
Tensor diag(const Tensor& input, std::int64_t diagonal = 0);

enum class PadMode : std::uint8_t { kConstant, kReflect, kReplicate, kCircular };
// Adds elements before and after each dimension. `pads`: {before, after} for the last dimension,
// then for the second last, and so on; negative numbers remove elements. `value` is for kConstant.
Tensor pad(const Tensor& input, const Dims& pads, PadMode mode = PadMode::kConstant,
           Scalar value = 0);

// Rearranges [..., C r r, H, W] to [..., C, H r, W r], and the reverse (Shi et al. 2016). Throws
// kShape if a size is not a multiple of r.
Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor);
// Deals the channels of [N, C, ...] out: channel k of each of the `groups` groups, in turn, for
// each k (Zhang et al. 2018). Throws kShape if `groups` does not divide C, or for less than 3
// dimensions.
Tensor channel_shuffle(const Tensor& input, std::int64_t groups);

}  // namespace dl
