// What becomes of the elements of losses that are made of other operations.
#pragma once

#include "core/ops/loss.h"
#include "core/ops/reduce.h"

namespace dl {

inline Tensor reduced(const Tensor& elements, Reduction reduction) {
  if (reduction == Reduction::kMean) return mean(elements);
  return reduction == Reduction::kSum ? sum(elements) : elements;
}

}  // namespace dl
