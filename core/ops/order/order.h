// Cumulative sums and products, medians, sorting and unique elements.
//
// A negative `dim` counts from the end. Throws kIndex for a dimension that does not exist.
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor/tensor.h"

namespace dl {

// Cumulative sums along a dimension. Integers and bool give int64; floating elements are summed in
// float64 and rounded once each.
Tensor cumsum(const Tensor& input, std::int64_t dim);

// Cumulative products, with the dtypes of cumsum().
Tensor cumprod(const Tensor& input, std::int64_t dim);

// The lower median along `dim`, and its index (int64; any index if values are equal). A slice with
// NaN gives NaN; nanmedian ignores NaN. The gradient goes to that element. Without `dim`: of all
// elements, without an index; NaN for an empty tensor; equal elements share its gradient evenly.
// Throws kIndex for a dimension of size 0, kDType for bool.
std::pair<Tensor, Tensor> median(const Tensor& input, std::int64_t dim, ReduceOptions options = {});
Tensor median(const Tensor& input);
std::pair<Tensor, Tensor> nanmedian(const Tensor& input, std::int64_t dim,
                                    ReduceOptions options = {});
Tensor nanmedian(const Tensor& input);

// The k-th smallest value along a dimension (k >= 1) and its index; equal values are ordered as by
// sort(). Throws kInvalidArgument for another k.
std::pair<Tensor, Tensor> kthvalue(const Tensor& input, std::int64_t k, std::int64_t dim = -1,
                                   ReduceOptions options = {});

struct UniqueResult {
  Tensor values;   // ascending, 1-d; each NaN counts as different
  Tensor inverse;  // with return_inverse: the index of each element's value; the input's shape
  Tensor counts;   // with return_counts: how often each value occurs
};
// The distinct elements of a tensor. No gradient.
UniqueResult unique(const Tensor& input, UniqueOptions options = {});
// Removes elements that equal their predecessor.
UniqueResult unique_consecutive(const Tensor& input, UniqueOptions options = {});

// Sorts along a dimension. Returns the values and their indices in the input (int64). Equal values
// keep their order, and NaN is the largest. The gradient goes to the indexed elements.
std::pair<Tensor, Tensor> sort(const Tensor& input, std::int64_t dim = -1,
                               SortOptions options = {});
Tensor argsort(const Tensor& input, std::int64_t dim = -1, SortOptions options = {});

// The k largest (or smallest) values along a dimension, sorted, and their indices. The first of
// equal values is preferred. Throws kInvalidArgument if k is negative or above the size.
std::pair<Tensor, Tensor> topk(const Tensor& input, std::int64_t k, std::int64_t dim = -1,
                               TopkOptions options = {});

}  // namespace dl
