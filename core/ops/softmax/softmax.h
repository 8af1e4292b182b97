// Softmax along a dimension.
//
// Floating tensors of any shape; the result is contiguous. Computed with the row maximum removed
// (Goodfellow et al. 2016, 4.1), in float32 for half types. Throws kIndex for a dimension that does
// not exist.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {

Tensor softmax(const Tensor& input, std::int64_t dim);
Tensor log_softmax(const Tensor& input, std::int64_t dim);

namespace detail {
// softmax(), but 0 in rows whose elements are all -infinity (fully masked rows of attention). The
// gradient of such a row is 0.
Tensor safe_softmax(const Tensor& input, std::int64_t dim);
}  // namespace detail

}  // namespace dl
