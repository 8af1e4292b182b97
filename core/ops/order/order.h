// Cumulative sums and products, medians, sorting and unique elements.
//
// A negative `dim` counts from the end. The functions throw kIndex if the dimension does not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/tensor/tensor.h"

namespace dl {

// Cumulative sums along a dimension. Integers and bool give int64. Floating elements are summed in
// float64, and each sum is rounded once to the input's dtype.
Tensor cumsum(const Tensor& input, std::int64_t dim);

// Cumulative products, with the dtypes of cumsum().
Tensor cumprod(const Tensor& input, std::int64_t dim);

// The lower median along `dim`, and its index (int64; if several elements equal the median, the
// index of any of them). A slice with a NaN gives NaN; nanmedian() ignores NaNs. The gradient goes
// to the element at the index. Throws kIndex for a dimension of size 0, kDType for bool.
//
// Without `dim`, the result is the median of all elements, without an index. Its gradient is
// divided evenly among the elements that equal it. An empty tensor of a floating dtype gives NaN.
std::pair<Tensor, Tensor> median(const Tensor& input, std::int64_t dim, ReduceOptions options = {});
Tensor median(const Tensor& input);
std::pair<Tensor, Tensor> nanmedian(const Tensor& input, std::int64_t dim,
                                    ReduceOptions options = {});
Tensor nanmedian(const Tensor& input);

// The k-th smallest value along a dimension and its index; equal values are ordered as by sort().
// Throws kInvalidArgument unless k is between 1 and the dimension's size.
std::pair<Tensor, Tensor> kthvalue(const Tensor& input, std::int64_t k, std::int64_t dim = -1,
                                   ReduceOptions options = {});

// The value below which the share q of the elements lies, along `dim` or of all elements: the
// element at place q (count - 1) of the sorted ones, or for a place between two what
// options.interpolation says. Floating dtypes float32 and float64. `q` is in [0, 1], a number or a
// tensor of the input's dtype with at most one dimension, which then comes first in the result. A
// NaN gives NaN; nanquantile() ignores NaNs. Throws kInvalidArgument for other shares, for an
// unknown interpolation, and for more than 2^24 elements of float32, whose places float32 cannot
// count; kShape for no elements.
Tensor quantile(const Tensor& input, double q, std::optional<std::int64_t> dim = {},
                QuantileOptions options = {});
Tensor quantile(const Tensor& input, const Tensor& q, std::optional<std::int64_t> dim = {},
                QuantileOptions options = {});
Tensor nanquantile(const Tensor& input, double q, std::optional<std::int64_t> dim = {},
                   QuantileOptions options = {});
Tensor nanquantile(const Tensor& input, const Tensor& q, std::optional<std::int64_t> dim = {},
                   QuantileOptions options = {});

struct UniqueResult {
  Tensor values;   // 1-d; no NaN equals another NaN
  Tensor inverse;  // if return_inverse: each element's index in `values`; has the input's shape
  Tensor counts;   // if return_counts: how many elements each value stands for
};
// The distinct elements of a tensor, in ascending order. They have no gradient.
UniqueResult unique(const Tensor& input, UniqueOptions options = {});
// The elements of the flattened tensor in their order, without those that equal the element before.
// They have no gradient.
UniqueResult unique_consecutive(const Tensor& input, UniqueOptions options = {});
namespace detail {
// [n] bool: true if sorted[i], an element or a row, differs from the one before. The first one
// does.
//   sorted  [n] or [n, width]
Tensor begins_of_runs(const Tensor& sorted);
// What unique() returns of sorted elements or slices, without their values.
//   begins [n]  as begins_of_runs() returns it
//   places [n]  int64: their indices before sorting; undefined if they were not sorted
// The inverse has shape `shape`.
UniqueResult runs_of(const Tensor& begins, const Tensor& places, const Shape& shape,
                     UniqueOptions options);
}  // namespace detail

// Sorts along a dimension. Returns the values and their indices in the input (int64). Equal values
// keep their order, and NaN is the largest. A value's gradient goes to the element at its index.
std::pair<Tensor, Tensor> sort(const Tensor& input, std::int64_t dim = -1,
                               SortOptions options = {});
Tensor argsort(const Tensor& input, std::int64_t dim = -1, SortOptions options = {});

// The k largest values along a dimension in descending order, or the k smallest in ascending order,
// and their indices. Of equal values, the first are taken. Throws kInvalidArgument if k is negative
// or above the dimension's size.
std::pair<Tensor, Tensor> topk(const Tensor& input, std::int64_t k, std::int64_t dim = -1,
                               TopkOptions options = {});

}  // namespace dl
