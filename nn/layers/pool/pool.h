// Max and average pooling: MaxPool2d, MaxPool1d, AvgPool1d, AdaptiveMaxPool2d; resample.h has
// AvgPool2d.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nn/functional/functional.h"
#include "nn/module/module.h"

namespace dl::nn {

using functional::MaxPool2dOptions;

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(IntPair window, MaxPool2dOptions given = {})
      : kernel_size(window), options(given) {}

  // input [N, C, H, W] or [C, H, W] -> [.., C, H', W']
  Tensor forward(const Tensor& input) override;
  // Fuses a ReLU before it.
  bool can_fuse(const Fusion& fusion) const override;
  Tensor forward_fused(const Tensor& input, const Fusion& fusion) override;
  std::string extra_repr() const override;

  IntPair kernel_size;
  MaxPool2dOptions options;
};

struct MaxPool1dOptions {
  std::optional<std::int64_t> stride{};  // default: the window's size
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;
};
// input [N, C, L] or [C, L] -> [.., L']
class MaxPool1d : public Module {
 public:
  explicit MaxPool1d(std::int64_t window, MaxPool1dOptions given = {})
      : kernel_size(window), options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  std::int64_t kernel_size;
  MaxPool1dOptions options;
};

struct AvgPool1dOptions {
  std::optional<std::int64_t> stride{};  // default: the window's size
  std::int64_t padding = 0;              // zeros on each side, at most half the window
  bool ceil_mode = false;
  bool count_include_pad = true;
};
// input [N, C, L] or [C, L] -> [.., L']
class AvgPool1d : public Module {
 public:
  explicit AvgPool1d(std::int64_t window, AvgPool1dOptions given = {})
      : kernel_size(window), options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  std::int64_t kernel_size;
  AvgPool1dOptions options;
};

// The maxima of windows that divide the image, [N, C, H, W] or [C, H, W], into `size` cells; an
// element may be in two windows.
class AdaptiveMaxPool2d : public Module {
 public:
  // A size of 0 means the input's size, like None in PyTorch.
  explicit AdaptiveMaxPool2d(IntPair size) : output_size(size) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  IntPair output_size;
};

namespace functional {
Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size, MaxPool1dOptions options = {});
Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size, AvgPool1dOptions options = {});
// Runs a few operations for each element of the result, unless its sizes divide the input's.
Tensor adaptive_max_pool2d(const Tensor& input, IntPair output_size);
}  // namespace functional

}  // namespace dl::nn
