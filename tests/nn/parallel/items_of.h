// Which gradients each bucket of a plan holds.
#pragma once

#include <vector>

#include "nn/parallel/reducer/bucket_plan.h"

namespace dl::nn::parallel {

inline std::vector<std::vector<std::size_t>> items_of(const std::vector<BucketPlan>& plan) {
  std::vector<std::vector<std::size_t>> result;
  for (const BucketPlan& bucket : plan) {
    result.emplace_back();
    for (const auto& place : bucket.places) result.back().push_back(place.item);
  }
  return result;
}

}  // namespace dl::nn::parallel
