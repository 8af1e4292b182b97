// Helpers of losses: their reductions, and the slopes of the element-wise ones.
#pragma once

#include <string_view>

#include "core/base/error.h"
#include "core/elementwise/losses.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"

namespace dl {

// For all losses except kl_div.
inline void check_reduction(Reduction reduction, std::string_view op) {
  DL_CHECK(reduction != Reduction::kBatchMean, kInvalidArgument,
           "{}: the reduction is kBatchMean, which only kl_div has", op);
}

inline Tensor reduced(const Tensor& elements, Reduction reduction) {
  if (reduction == Reduction::kMean) return mean(elements);
  return reduction == Reduction::kSum ? sum(elements) : elements;
}

// The derivative of a row's loss, for each element, by the input x, or by the target t; recorded.
// `a`: the row's number; `pos_weight` may be undefined. All have one shape.
Tensor pair_slope(PairLoss fn, bool of_target, const Tensor& x, const Tensor& t,
                  const Tensor& pos_weight, double a);

}  // namespace dl
