// MaxPool2d: the largest element of each window.
#pragma once

#include <string>

#include "nn/functional/functional.h"
#include "nn/module/module.h"

namespace dl::nn {

using functional::MaxPool2dOptions;

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(IntPair window, MaxPool2dOptions given = {})
      : kernel_size(window), options(given) {}

  // input [N, C, H, W] -> [N, C, H', W']
  Tensor forward(const Tensor& input) override;
  // Takes a ReLU before it.
  bool can_fuse(const Fusion& fusion) const override;
  Tensor forward_fused(const Tensor& input, const Fusion& fusion) override;
  std::string extra_repr() const override;

  IntPair kernel_size;
  MaxPool2dOptions options;
};

}  // namespace dl::nn
