// Joining, gathering and masking.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

// Tensors after one another along `dim`; all other sizes agree, dtypes are promoted. A tensor of
// shape [0] may stand beside any others and adds nothing, as in PyTorch. Throws kInvalidArgument
// for an empty list, kShape and names the first tensor that does not fit.
Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);
// Tensors of one shape along a new dimension.
Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);

// The slices of `input` that `index` (int64, one dimension; none: one slice) names, in its order;
// the way a batch is gathered. The result is contiguous and has `input`'s dimensions. Throws kIndex
// and names the first index out of range.
Tensor index_select(const Tensor& input, std::int64_t dim, const Tensor& index);

// input where mask is true, divided by 1 - p, else 0: dropout with a mask drawn by the caller.
//   mask  bool, of input's shape
//   p     in [0, 1)
Tensor dropout_with_mask(const Tensor& input, const Tensor& mask, double p);

}  // namespace dl
