// Checks of layers before they call an operation: the operation sees only tensors, while the layer
// knows the size that the user gave.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace dl::nn {

// "Linear: in_features is 4, but the input of shape [2, 3] has 3 features". Dimension `dim` must
// have `wanted` entries. The operation checks an undefined input and one without that dimension.
// Throws kShape.
inline void check_size(std::string_view layer, std::string_view option, std::int64_t wanted,
                       const Tensor& input, std::int64_t dim, std::string_view what) {
  if (!input.defined() || input.dim() <= (dim < 0 ? -dim - 1 : dim)) return;
  DL_CHECK(input.size(dim) == wanted, kShape, "{}: {} is {}, but the input of shape {} has {} {}",
           layer, option, wanted, input.sizes().str(), input.size(dim), what);
}

}  // namespace dl::nn
