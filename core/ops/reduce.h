// Sums, means and extremes.
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor/tensor.h"

namespace dl {

struct ReduceOptions {
  bool keepdim = false;  // keep reduced dimensions, with size 1
};

// Sum over `dims`, counted from the end where negative; no dims means all. Integers and bool give
// int64. Half types and float32 are summed in float64 and rounded once. One order of additions,
// whatever the number of threads. Throws kIndex for a dimension that is not there, kInvalidArgument
// for one named twice.
Tensor sum(const Tensor& input);
Tensor sum(const Tensor& input, const Dims& dims, ReduceOptions options = {});
// The sum divided by the number of elements. Floating dtypes only; NaN where there are none.
Tensor mean(const Tensor& input);
Tensor mean(const Tensor& input, const Dims& dims, ReduceOptions options = {});

// Largest elements along one dimension and where they are (int64; the first of equals). NaN is the
// largest. Throws kShape for an empty dimension.
std::pair<Tensor, Tensor> max(const Tensor& input, std::int64_t dim, ReduceOptions options = {});
Tensor argmax(const Tensor& input, std::int64_t dim, ReduceOptions options = {});
// Over all elements, of the flattened tensor. Equal largest elements, or all NaNs, share max's
// gradient evenly, as in PyTorch; along a dimension the first of them gets it.
Tensor max(const Tensor& input);
Tensor argmax(const Tensor& input);

}  // namespace dl
