// Places in sorted numbers, and the most frequent value.
#pragma once

#include <cstdint>
#include <utility>

#include "core/ops/order/order.h"
#include "core/tensor/tensor.h"

namespace dl {

struct SearchOptions {
  bool right = false;      // behind the numbers that equal the value, else before them
  bool out_int32 = false;  // int32, else int64
  Tensor sorter{};         // argsort() of a sequence that is not sorted itself
};

// For each value the place at which the sorted sequence stays sorted with it.
//   sequence  [n], or [..., n] with as many sequences as the values have rows; rises along its last
//             dimension
//   values    any shape for one sequence, else [..., m]; another dtype is promoted
// A NaN among the values comes behind all numbers. A sequence with NaN is not in order; the result
// is PyTorch's then. No gradient. Throws kShape.
Tensor searchsorted(const Tensor& sequence, const Tensor& values,
                    const SearchOptions& options = {});
// For one sequence and one number. Returns a tensor without dimensions.
Tensor searchsorted(const Tensor& sequence, Scalar value, const SearchOptions& options = {});

struct BucketizeOptions {
  bool right = false;
  bool out_int32 = false;
};
// The bucket of each value: i if boundaries[i - 1] < value <= boundaries[i]; with `right` if
// boundaries[i - 1] <= value < boundaries[i].
Tensor bucketize(const Tensor& values, const Tensor& boundaries, BucketizeOptions options = {});

// The most frequent value along a dimension (the smallest if several are), and the index (int64) of
// its last occurrence. Each NaN is a value of its own. The gradient goes to that element. Throws
// kIndex for a dimension of size 0.
std::pair<Tensor, Tensor> mode(const Tensor& input, std::int64_t dim = -1,
                               ReduceOptions options = {});

// The different slices along a dimension, in order of their elements; `inverse` and `counts` have
// one number a slice, and a slice with NaN is one of its own. On the CPU only. No gradient.
UniqueResult unique(const Tensor& input, std::int64_t dim, UniqueOptions options = {});

}  // namespace dl
