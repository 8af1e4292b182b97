#include "nn/models/vgg.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"
#include "nn/models/blocks/blocks.h"

namespace dl::nn::models {
namespace {

constexpr std::int64_t kVGGParts = 5;  // each ends with pooling
struct VGGLayout {
  int depth;
  std::array<std::int64_t, kVGGParts> convolutions;  // of each part
};
constexpr std::array<VGGLayout, 4> kVGGLayouts{
    {{11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}}};
constexpr std::array<std::int64_t, kVGGParts> kVGGWidths{64, 128, 256, 512, 512};

Sequential features(const VGGOptions& o) {
  const auto* const layout = std::ranges::find(kVGGLayouts, o.depth, &VGGLayout::depth);
  DL_CHECK(layout != kVGGLayouts.end(), kInvalidArgument,
           "VGG: the depth is {}, wanted 11, 13, 16 or 19", o.depth);
  DL_CHECK(o.num_classes > 0, kInvalidArgument, "VGG: num_classes is {}, wanted at least 1",
           o.num_classes);
  Sequential layers;
  std::int64_t channels = 3;
  for (std::size_t part = 0; part < kVGGWidths.size(); ++part) {
    for (std::int64_t i = 0; i < layout->convolutions[part]; ++i) {
      layers.add(Conv2d(channels, kVGGWidths[part], 3, {.padding = 1}));
      channels = kVGGWidths[part];
      if (o.batch_norm) layers.add(BatchNorm2d(channels));
      layers.add(ReLU());
    }
    layers.add(MaxPool2d(2, {.stride = 2}));
  }
  return layers;
}

Sequential classifier(const VGGOptions& o) {
  constexpr std::int64_t kPooled = 7;
  constexpr std::int64_t kWidth = 4096;
  return {Linear(kVGGWidths.back() * kPooled * kPooled, kWidth),
          ReLU(),
          Dropout(o.dropout),
          Linear(kWidth, kWidth),
          ReLU(),
          Dropout(o.dropout),
          Linear(kWidth, o.num_classes)};
}

}  // namespace

VGG::VGG(VGGOptions options)
    : features_(register_module("features", features(options))),
      avgpool_(register_module("avgpool", AdaptiveAvgPool2d(7))),
      classifier_(register_module("classifier", classifier(options))) {
  init_convolutional(*this);
}

Tensor VGG::forward(const Tensor& input) {
  return classifier_(avgpool_(features_(input)).flatten(1));
}

}  // namespace dl::nn::models
