#include "nn/models/mobilenet.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/pool/resample.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/resample.h"
#include "nn/models/blocks/blocks.h"

namespace dl::nn::models {
namespace {

void check(std::string_view model, double width_mult, std::int64_t classes) {
  DL_CHECK(width_mult > 0 && std::isfinite(width_mult), kInvalidArgument,
           "{}: width_mult is {}, wanted more than 0", model, width_mult);
  DL_CHECK(classes > 0, kInvalidArgument, "{}: num_classes is {}, wanted at least 1", model,
           classes);
}

// Layers under a name, whose result is added to their input if it has the same shape.
class InvertedResidual : public Module {
 public:
  InvertedResidual(const char* name, Sequential layers, bool is_residual)
      : layers_(register_module(name, std::move(layers))), is_residual_(is_residual) {}
  Tensor forward(const Tensor& input) override {
    return is_residual_ ? input + layers_(input) : layers_(input);
  }

 private:
  Sequential& layers_;
  bool is_residual_;
};

// A row of table 2 of the paper of 2018.
struct StageV2 {
  std::int64_t expand;
  std::int64_t out;
  std::int64_t blocks;
  std::int64_t stride;  // of the first block
};
constexpr StageV2 kStagesV2[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

InvertedResidual block_v2(std::int64_t in, std::int64_t out, std::int64_t expand,
                          std::int64_t stride) {
  const std::int64_t inner = in * expand;
  Sequential layers;
  if (expand != 1) layers.add(conv_norm({.in = in, .out = inner}, {}, ReLU6()));
  layers.add(conv_norm({.in = inner, .out = inner, .kernel = 3, .stride = stride, .groups = inner},
                       {}, ReLU6()));
  layers.add(Conv2d(inner, out, 1, {.bias = false}));
  layers.add(BatchNorm2d(out));
  return InvertedResidual("conv", std::move(layers), stride == 1 && in == out);
}

std::int64_t last_channels(const MobileNetV2Options& o) {
  return round_channels(1280 * std::max(1.0, o.width_mult));
}

Sequential features(const MobileNetV2Options& o) {
  check("MobileNetV2", o.width_mult, o.num_classes);
  std::int64_t channels = round_channels(32 * o.width_mult);
  Sequential result;
  result.add(conv_norm({.in = 3, .out = channels, .kernel = 3, .stride = 2}, {}, ReLU6()));
  for (const StageV2& stage : kStagesV2) {
    const std::int64_t out = round_channels(static_cast<double>(stage.out) * o.width_mult);
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      result.add(block_v2(channels, out, stage.expand, i == 0 ? stage.stride : 1));
      channels = out;
    }
  }
  result.add(conv_norm({.in = channels, .out = last_channels(o)}, {}, ReLU6()));
  return result;
}

// A row of table 1 or 2 of the paper of 2019.
struct BlockV3 {
  std::int64_t kernel;
  std::int64_t expanded;
  std::int64_t out;
  bool has_squeeze;
  bool has_hardswish;  // else ReLU
  std::int64_t stride;
};
constexpr BlockV3 kLarge[] = {
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
constexpr BlockV3 kSmall[] = {
    {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};
constexpr BatchNormOptions kNormV3{.eps = 0.001, .momentum = 0.01};

std::span<const BlockV3> blocks_of(const MobileNetV3Options& o) {
  return o.small ? std::span<const BlockV3>(kSmall) : std::span<const BlockV3>(kLarge);
}

template <typename A>
InvertedResidual block_v3(std::int64_t in, const BlockV3& block, double width_mult) {
  const auto scaled = [&](std::int64_t channels) {
    return round_channels(static_cast<double>(channels) * width_mult);
  };
  const std::int64_t inner = scaled(block.expanded);
  const std::int64_t out = scaled(block.out);
  Sequential layers;
  if (inner != in) layers.add(conv_norm({.in = in, .out = inner}, kNormV3, A()));
  layers.add(conv_norm(
      {.in = inner, .out = inner, .kernel = block.kernel, .stride = block.stride, .groups = inner},
      kNormV3, A()));
  if (block.has_squeeze) {
    const std::int64_t squeezed = round_channels(static_cast<double>(inner / 4));
    layers.add(SqueezeExcitation(inner, squeezed, ReLU(), Hardsigmoid()));
  }
  layers.add(conv_norm({.in = inner, .out = out}, kNormV3));
  return InvertedResidual("block", std::move(layers), block.stride == 1 && in == out);
}

std::int64_t last_convolution(const MobileNetV3Options& o) {
  return 6 * round_channels(static_cast<double>(blocks_of(o).back().out) * o.width_mult);
}

Sequential features(const MobileNetV3Options& o) {
  check("MobileNetV3", o.width_mult, o.num_classes);
  std::int64_t channels = round_channels(16 * o.width_mult);
  Sequential result;
  result.add(conv_norm({.in = 3, .out = channels, .kernel = 3, .stride = 2}, kNormV3, Hardswish()));
  for (const BlockV3& block : blocks_of(o)) {
    result.add(block.has_hardswish ? block_v3<Hardswish>(channels, block, o.width_mult)
                                   : block_v3<ReLU>(channels, block, o.width_mult));
    channels = round_channels(static_cast<double>(block.out) * o.width_mult);
  }
  result.add(conv_norm({.in = channels, .out = last_convolution(o)}, kNormV3, Hardswish()));
  return result;
}

Sequential classifier(const MobileNetV3Options& o) {
  const std::int64_t width = round_channels((o.small ? 1024 : 1280) * o.width_mult);
  return {Linear(last_convolution(o), width), Hardswish(), Dropout(o.dropout),
          Linear(width, o.num_classes)};
}

}  // namespace

MobileNetV2::MobileNetV2(MobileNetV2Options options)
    : features_(register_module("features", features(options))),
      classifier_(register_module(
          "classifier", Sequential{Dropout(options.dropout),
                                   Linear(last_channels(options), options.num_classes)})) {
  init_convolutional(*this);
}

Tensor MobileNetV2::forward(const Tensor& input) {
  return classifier_(adaptive_avg_pool2d(features_(input), {1, 1}).flatten(1));
}

MobileNetV3::MobileNetV3(MobileNetV3Options options)
    : features_(register_module("features", features(options))),
      avgpool_(register_module("avgpool", AdaptiveAvgPool2d(1))),
      classifier_(register_module("classifier", classifier(options))) {
  init_convolutional(*this);
}

Tensor MobileNetV3::forward(const Tensor& input) {
  return classifier_(avgpool_(features_(input)).flatten(1));
}

}  // namespace dl::nn::models
