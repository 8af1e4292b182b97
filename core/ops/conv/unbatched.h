// Inputs without a batch: operations on [N, C, ...] treat [C, ...] as a batch of one, as in
// PyTorch.
#pragma once

#include <cstdint>

#include "core/autograd/record.h"
#include "core/tensor/tensor.h"

namespace dl {

// True if the input lacks the first of `dims` dimensions.
inline bool is_unbatched(const Tensor& input, std::int64_t dims) {
  return input.defined() && input.dim() == dims - 1;
}

// Calls batched() on the input as a batch of one, and removes the batch. The result's node has
// PyTorch's name.
template <typename Batched>
Tensor without_batch(const Tensor& input, const char* grad_fn, const Batched& batched) {
  return detail::finish_composed(batched(input.unsqueeze(0)).squeeze(0), input, grad_fn);
}

}  // namespace dl
