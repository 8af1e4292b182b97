// Binary search in sorted numbers, the most frequent value, and unique slices.
#pragma once

#include <cstdint>
#include <utility>

#include "core/ops/order/order.h"
#include "core/tensor/tensor.h"

namespace dl {

struct SearchOptions {
  bool right = false;      // true: after the numbers that equal the value; false: before them
  bool out_int32 = false;  // int32, else int64
  Tensor sorter{};         // argsort() of a sequence that is not sorted itself
};

// For each value, the index at which to insert it so that the sequence stays sorted.
//   sequence  [n], or [..., n] with as many sequences as the values have rows; ascending along its
//             last dimension
//   values    any shape for one sequence, else [..., m]; another dtype is promoted
// A NaN among the values sorts after all numbers. A sequence with NaN is not sorted; the result is
// then the same as PyTorch's. No gradient. Throws kShape.
Tensor searchsorted(const Tensor& sequence, const Tensor& values,
                    const SearchOptions& options = {});
// For one sequence and one number. Returns a 0-d tensor.
Tensor searchsorted(const Tensor& sequence, Scalar value, const SearchOptions& options = {});

struct BucketizeOptions {
  bool right = false;
  bool out_int32 = false;
};
// The bucket of each value: i if boundaries[i - 1] < value <= boundaries[i]; with `right` if
// boundaries[i - 1] <= value < boundaries[i].
Tensor bucketize(const Tensor& values, const Tensor& boundaries, BucketizeOptions options = {});

// The most frequent value along a dimension (the smallest of equally frequent ones), and the index
// (int64) of its last occurrence. Each NaN counts as a different value. The gradient goes to the
// element at that index. Throws kIndex for a dimension of size 0.
std::pair<Tensor, Tensor> mode(const Tensor& input, std::int64_t dim = -1,
                               ReduceOptions options = {});

// The distinct slices along a dimension, in lexicographic order; `inverse` and `counts` have one
// number for each slice. A slice with NaN equals no other slice. No gradient.
UniqueResult unique(const Tensor& input, std::int64_t dim, UniqueOptions options = {});

}  // namespace dl
