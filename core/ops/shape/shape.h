// Cutting, repeating, turning and padding: what is made of views and copies of others. All have a
// gradient. Dimensions count from the end if they are negative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

// Views. The pieces have `size` elements along `dim`, the last one what is left; or the sizes that
// are named, whose sum is the dimension's.
std::vector<Tensor> split(const Tensor& input, SizeNumber auto size, std::int64_t dim = 0) {
  return detail::split_evenly(input, static_cast<std::int64_t>(size), dim);
}
std::vector<Tensor> split(const Tensor& input, const Dims& sizes, std::int64_t dim = 0);
// At most `chunks` pieces of one size, but for the last.
std::vector<Tensor> chunk(const Tensor& input, std::int64_t chunks, std::int64_t dim = 0);
// The slices along `dim`, without it.
std::vector<Tensor> unbind(const Tensor& input, std::int64_t dim = 0);
Tensor movedim(const Tensor& input, const DimList& source, const DimList& destination);
// The last two dimensions exchanged; x.T() turns all round.
Tensor mT(const Tensor& input);
Tensor unflatten(const Tensor& input, std::int64_t dim, const Shape& sizes);
Tensor expand_as(const Tensor& input, const Tensor& other);
Tensor view_as(const Tensor& input, const Tensor& other);
Tensor reshape_as(const Tensor& input, const Tensor& other);
Tensor broadcast_to(const Tensor& input, const Shape& shape);
// One tensor a dimension of the grid that they span. Names of indexing as in PyTorch.
enum class GridIndexing : std::uint8_t { kIJ, kXY };
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                             GridIndexing indexing = GridIndexing::kIJ);

// Copies.
// The whole, repeats[d] times along dimension d; repeats may name more dimensions in front, tile's
// also fewer.
Tensor repeat(const Tensor& input, const Dims& repeats);
Tensor tile(const Tensor& input, const Dims& repeats);
// Each slice along `dim`, so many times; of the flattened input where no dimension is named.
Tensor repeat_interleave(const Tensor& input, std::int64_t repeats,
                         std::optional<std::int64_t> dim = {});
Tensor repeat_interleave(const Tensor& input, const Tensor& repeats,
                         std::optional<std::int64_t> dim = {});
// The order of the elements along some dimensions, turned round.
Tensor flip(const Tensor& input, const Dims& dims);
// Elements move on by `shifts` along `dims`, from the end to the beginning; without dims along the
// flattened input.
Tensor roll(const Tensor& input, const DimList& shifts, const DimList& dims = {});
// The lower and the upper triangle of matrices, with 0 elsewhere; `diagonal` moves the border to
// the right.
Tensor tril(const Tensor& input, std::int64_t diagonal = 0);
Tensor triu(const Tensor& input, std::int64_t diagonal = 0);
// The elements of a matrix's diagonal, as the last dimension; a view.
Tensor diagonal(const Tensor& input, std::int64_t offset = 0, std::int64_t dim1 = 0,
                std::int64_t dim2 = 1);
// The diagonal of a matrix, or the matrix with this vector as its diagonal.
Tensor diag(const Tensor& input, std::int64_t diagonal = 0);

enum class PadMode : std::uint8_t { kConstant, kReflect, kReplicate, kCircular };
// Elements before and after each dimension: {before, after} of the last dimension, then of the one
// before, and so on. Negative numbers cut. `value` is for kConstant.
Tensor pad(const Tensor& input, const Dims& pads, PadMode mode = PadMode::kConstant,
           Scalar value = 0);

// [..., C r r, H, W] as [..., C, H r, W r], and the reverse (Shi et al. 2016). Throws kShape for
// sizes that r does not divide.
Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor);

}  // namespace dl
