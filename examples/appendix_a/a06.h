// Listing A.6: a dataset of features and labels.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"
#include "nn/data/dataset.h"

namespace dl::examples::appendix_a {

class ToyDataset final : public data::Dataset {
 public:
  ToyDataset(const Tensor& X, const Tensor& y) : features_(X), labels_(y) {}

  // One record and its label.
  data::Sample get(std::int64_t index) const override { return {features_[index], labels_[index]}; }
  std::int64_t size() const noexcept override { return labels_.size(0); }

 private:
  Tensor features_;
  Tensor labels_;
};

}  // namespace dl::examples::appendix_a
