// Running sums, and order along a dimension.
//
// `dim` counts from the end where negative. Throws kIndex for a dimension that is not there.
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor/tensor.h"

namespace dl {

// Running sums along a dimension. Integers and bool give int64; floating elements are summed in
// float64 and rounded once each.
Tensor cumsum(const Tensor& input, std::int64_t dim);

// Values in order along a dimension and where they stood (int64). Equal ones keep their order, and
// NaN is the largest. The gradient goes back to where a value stood.
std::pair<Tensor, Tensor> sort(const Tensor& input, std::int64_t dim = -1,
                               SortOptions options = {});
Tensor argsort(const Tensor& input, std::int64_t dim = -1, SortOptions options = {});

// The k largest (or smallest) values along a dimension, in order, and where they stood. Of equal
// ones the first are taken. Throws kInvalidArgument for a k that is below 0 or above the size.
std::pair<Tensor, Tensor> topk(const Tensor& input, std::int64_t k, std::int64_t dim = -1,
                               TopkOptions options = {});

}  // namespace dl
