// Inputs without a batch: operations of [N, C, ...] take [C, ...] as a batch of one, as PyTorch's
// do.
#pragma once

#include <cstdint>

#include "core/autograd/record.h"
#include "core/tensor/tensor.h"

namespace dl {

// Whether the input lacks the first of `dims` dimensions.
inline bool is_unbatched(const Tensor& input, std::int64_t dims) {
  return input.defined() && input.dim() == dims - 1;
}

// batched(input as a batch of one), without the batch. The result's node has PyTorch's name.
template <typename Batched>
Tensor without_batch(const Tensor& input, const char* grad_fn, const Batched& batched) {
  return detail::shown_as(batched(input.unsqueeze(0)).squeeze(0), input, grad_fn);
}

}  // namespace dl
