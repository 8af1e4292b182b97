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

// Running products, as cumsum.
Tensor cumprod(const Tensor& input, std::int64_t dim);

// The median along a dimension, of an even number the lower of both in the middle, and where it
// stands (int64; any of equal ones). NaN is the median of any numbers among
// which it is; nanmedian leaves it out. The gradient goes to that element. Of all elements: the
// median alone, NaN of none; equal ones share its gradient evenly. Throws kIndex for a dimension of
// size 0, kDType for bool.
std::pair<Tensor, Tensor> median(const Tensor& input, std::int64_t dim, ReduceOptions options = {});
Tensor median(const Tensor& input);
std::pair<Tensor, Tensor> nanmedian(const Tensor& input, std::int64_t dim,
                                    ReduceOptions options = {});
Tensor nanmedian(const Tensor& input);

// The k-th smallest value along a dimension, k from 1 on, and where it stands: of equal ones as
// sort() places them. Throws kInvalidArgument for another k.
std::pair<Tensor, Tensor> kthvalue(const Tensor& input, std::int64_t k, std::int64_t dim = -1,
                                   ReduceOptions options = {});

struct UniqueResult {
  Tensor values;   // in order, of one dimension; each NaN is one of its own
  Tensor inverse;  // with return_inverse: where each element's value stands; the input's shape
  Tensor counts;   // with return_counts: how often each value is there
};
// The different elements of a tensor. No gradient.
UniqueResult unique(const Tensor& input, UniqueOptions options = {});
// The elements without those that equal the one before them.
UniqueResult unique_consecutive(const Tensor& input, UniqueOptions options = {});

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
