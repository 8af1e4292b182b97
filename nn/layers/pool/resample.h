// Average pooling and resizing: AvgPool2d, AdaptiveAvgPool2d, Upsample. core/ops/pool/resample.h
// has their formulas. Images are [N, C, H, W], for average pooling also [C, H, W].
#pragma once

#include <optional>
#include <string>

#include "core/ops/pool/resample.h"
#include "nn/module/module.h"

namespace dl::nn {

struct AvgPool2dOptions {
  std::optional<IntPair> stride{};  // default: the window's size
  IntPair padding = 0;              // zeros on each side, at most half the window
  bool ceil_mode = false;           // windows may reach beyond the end
  bool count_include_pad = true;    // padding counts in the mean
  std::optional<std::int64_t> divisor_override{};
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(IntPair window, AvgPool2dOptions given = {})
      : kernel_size(window), options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  IntPair kernel_size;
  AvgPool2dOptions options;
};

class AdaptiveAvgPool2d : public Module {
 public:
  // A size of 0 means the input's size, like None in PyTorch.
  explicit AdaptiveAvgPool2d(IntPair size) : output_size(size) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  IntPair output_size;
};

struct UpsampleOptions {
  std::optional<IntPair> size{};  // of the result; or
  std::optional<double> scale_factor{};
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;
};

class Upsample : public Module {
 public:
  // Throws kInvalidArgument unless there is either a size or a positive scale_factor.
  explicit Upsample(UpsampleOptions given);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  UpsampleOptions options;
};

namespace functional {
Tensor avg_pool2d(const Tensor& input, IntPair kernel_size, const AvgPool2dOptions& options = {});
Tensor adaptive_avg_pool2d(const Tensor& input, IntPair output_size);
// The function of nn::Upsample, with the same errors.
Tensor interpolate(const Tensor& input, const UpsampleOptions& options);
}  // namespace functional

}  // namespace dl::nn
