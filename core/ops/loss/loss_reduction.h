// Reductions of losses: the common check, and the reduction of composed losses.
#pragma once

#include <string_view>

#include "core/base/error.h"
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

}  // namespace dl
