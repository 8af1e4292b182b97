// Joining, gathering and masking.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

// Concatenates tensors along `dim`; all other sizes are equal, dtypes are promoted. A tensor of
// shape [0] is ignored, as in PyTorch. Throws kInvalidArgument for an empty list, and kShape with
// the first tensor whose shape does not match.
Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);
// Joins tensors of one shape along a new dimension.
Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);

// The slices of `input` along `dim` that `index` (int64, 1-d; 0-d: one slice) names, in its order.
// The result is contiguous and has `input`'s dimensions. Throws kIndex with the first index out of
// range.
Tensor index_select(const Tensor& input, std::int64_t dim, const Tensor& index);

// input / (1 - p) if the mask is true, else 0: dropout with the caller's mask.
//   mask  bool, of input's shape
//   p     in [0, 1)
Tensor dropout_with_mask(const Tensor& input, const Tensor& mask, double p);

}  // namespace dl
