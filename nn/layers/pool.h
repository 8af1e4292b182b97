// MaxPool2d: the largest element of each window.
#pragma once

#include <optional>
#include <string>

#include "nn/functional/int_pair.h"
#include "nn/module/module.h"

namespace dl::nn {

struct MaxPool2dOptions {
  std::optional<IntPair> stride{};  // default: the window's size
  IntPair padding = 0;              // minus infinity on each side, at most half the window
  IntPair dilation = 1;
  bool ceil_mode = false;  // windows may reach over the end
};

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
