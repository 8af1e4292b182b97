// Reductions: sum(x), x.mean(1), x.amax({0, 2}, {.keepdim = true}) and so on, one for each row of
// core/reductions/list.def. docs/reference/operations.md lists them.
//
// They reduce over `dims` (negative ones count from the end) or over all dimensions. The result has
// the input's dtype, except that sum and prod of integers and bool give int64, any and all give
// bool (uint8 for uint8), and count_nonzero gives int64. float16, bfloat16 and float32 are summed
// in float32 within blocks and in float64 across blocks, and rounded at the end. The order of
// summation does not depend on the number of threads. Throws kIndex for a dimension that does not
// exist, kInvalidArgument for a repeated one, kDType for a dtype that the row does not accept, and
// kShape for an extreme over no elements.
#pragma once

#include <cstdint>
#include <utility>

#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl {

// Applies the row's reduction, with the row's argument p.
Tensor reduce(kernels::ReduceFn fn, const Tensor& input, const DimList& dims = {},
              ReduceOptions options = {}, double p = 0);

#define DL_REDUCTION(enumerator, name, ...)                                                       \
  inline Tensor name(const Tensor& input, const DimList& dims = {}, ReduceOptions options = {}) { \
    return reduce(kernels::ReduceFn::enumerator, input, dims, options);                           \
  }
#include "core/reductions/list.def"

// The mean of all elements that are not NaN; floating dtypes only.
Tensor nanmean(const Tensor& input, const DimList& dims = {}, ReduceOptions options = {});
// Returns amin and amax.
std::pair<Tensor, Tensor> aminmax(const Tensor& input, const DimList& dims = {},
                                  ReduceOptions options = {});

// sum of (x - mean)^2 / max(0, count - correction); std() is its square root.
Tensor var(const Tensor& input, const DimList& dims = {}, VarOptions options = {});
Tensor std(const Tensor& input, const DimList& dims = {}, VarOptions options = {});
// (sum of |x|^p)^(1/p); p may be 0, infinity and -infinity as well.
Tensor norm(const Tensor& input, double p = 2, const DimList& dims = {},
            ReduceOptions options = {});

// max and min along one dimension: the values and their indices (int64; the first of equal
// elements, which gets the gradient). NaN counts as the largest and as the smallest. Without a
// dimension: the value over all elements; equal elements, or all NaNs, share its gradient evenly.
// argmax and argmin return the indices; without a dimension, the index in the flattened tensor.
std::pair<Tensor, Tensor> extreme(kernels::ExtremeFn fn, const Tensor& input, std::int64_t dim,
                                  ReduceOptions options = {});
Tensor extreme(kernels::ExtremeFn fn, const Tensor& input);
Tensor index_of_extreme(kernels::ExtremeFn fn, const Tensor& input, std::int64_t dim,
                        ReduceOptions options = {});
Tensor index_of_extreme(kernels::ExtremeFn fn, const Tensor& input);

#define DL_EXTREME(enumerator, name, arg_name, ...)                                           \
  inline std::pair<Tensor, Tensor> name(const Tensor& input, std::int64_t dim,                \
                                        ReduceOptions options = {}) {                         \
    return extreme(kernels::ExtremeFn::enumerator, input, dim, options);                      \
  }                                                                                           \
  inline Tensor name(const Tensor& input) {                                                   \
    return extreme(kernels::ExtremeFn::enumerator, input);                                    \
  }                                                                                           \
  inline Tensor arg_name(const Tensor& input, std::int64_t dim, ReduceOptions options = {}) { \
    return index_of_extreme(kernels::ExtremeFn::enumerator, input, dim, options);             \
  }                                                                                           \
  inline Tensor arg_name(const Tensor& input) {                                               \
    return index_of_extreme(kernels::ExtremeFn::enumerator, input);                           \
  }
#include "core/reductions/list.def"

}  // namespace dl
