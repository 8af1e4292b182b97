// Reductions: sum(x), x.mean(1), x.amax({0, 2}, {.keepdim = true}) and so on, one for each row of
// core/reductions/list.def. docs/reference/operations.md lists them.
//
// They are over `dims`, counted from the end where negative, or over all. The result has the
// input's dtype; sum and prod of integers and bool give int64, any and all bool (uint8 of uint8),
// count_nonzero int64. float16, bfloat16 and float32 are merged in float32 within blocks, in
// float64 beyond, and rounded at the end. One order of merging, whatever the number of threads.
// Throws kIndex for a dimension that is not there, kInvalidArgument for one named twice, kDType for
// a dtype that the row does not take, and kShape for an extreme of no elements.
#pragma once

#include <cstdint>
#include <utility>

#include "core/reductions/list.h"
#include "core/tensor/tensor.h"

namespace dl {

// The row's reduction, with the row's number p.
Tensor reduce(kernels::ReduceFn fn, const Tensor& input, const DimList& dims = {},
              ReduceOptions options = {}, double p = 0);

#define DL_REDUCTION(enumerator, name, ...)                                                       \
  inline Tensor name(const Tensor& input, const DimList& dims = {}, ReduceOptions options = {}) { \
    return reduce(kernels::ReduceFn::enumerator, input, dims, options);                           \
  }
#include "core/reductions/list.def"

// The mean of all that are not NaN; floating.
Tensor nanmean(const Tensor& input, const DimList& dims = {}, ReduceOptions options = {});
// amin and amax.
std::pair<Tensor, Tensor> aminmax(const Tensor& input, const DimList& dims = {},
                                  ReduceOptions options = {});

// sum of (x - mean)^2 / max(0, count - correction), and its square root.
Tensor var(const Tensor& input, const DimList& dims = {}, VarOptions options = {});
Tensor std(const Tensor& input, const DimList& dims = {}, VarOptions options = {});
// (sum of |x|^p)^(1/p); p may be 0, infinity and -infinity as well.
Tensor norm(const Tensor& input, double p = 2, const DimList& dims = {},
            ReduceOptions options = {});

// max and min: the extremes along one dimension and where they are (int64; the first of equals,
// which gets the gradient). NaN is the largest and the smallest. Of all elements: the extreme
// alone; equal ones, or all NaNs, share its gradient evenly. argmax and argmin give the places, of
// all elements in the flattened tensor.
std::pair<Tensor, Tensor> extreme(kernels::ExtremeFn fn, const Tensor& input, std::int64_t dim,
                                  ReduceOptions options = {});
Tensor extreme(kernels::ExtremeFn fn, const Tensor& input);
Tensor place_of_extreme(kernels::ExtremeFn fn, const Tensor& input, std::int64_t dim,
                        ReduceOptions options = {});
Tensor place_of_extreme(kernels::ExtremeFn fn, const Tensor& input);

#define DL_EXTREME(enumerator, name, arg_name, ...)                                           \
  inline std::pair<Tensor, Tensor> name(const Tensor& input, std::int64_t dim,                \
                                        ReduceOptions options = {}) {                         \
    return extreme(kernels::ExtremeFn::enumerator, input, dim, options);                      \
  }                                                                                           \
  inline Tensor name(const Tensor& input) {                                                   \
    return extreme(kernels::ExtremeFn::enumerator, input);                                    \
  }                                                                                           \
  inline Tensor arg_name(const Tensor& input, std::int64_t dim, ReduceOptions options = {}) { \
    return place_of_extreme(kernels::ExtremeFn::enumerator, input, dim, options);             \
  }                                                                                           \
  inline Tensor arg_name(const Tensor& input) {                                               \
    return place_of_extreme(kernels::ExtremeFn::enumerator, input);                           \
  }
#include "core/reductions/list.def"

}  // namespace dl
