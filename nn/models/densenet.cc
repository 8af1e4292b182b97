#include "nn/models/densenet.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/index/index.h"
#include "core/ops/pool/resample.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"
#include "nn/module/init.h"
#include "nn/module/module_list.h"

namespace dl::nn::models {
namespace {

// Adds growth_rate channels to its input: a 1x1 convolution to bn_size * growth_rate channels, then
// a 3x3 one.
Sequential dense_layer(std::int64_t channels, const DenseNetOptions& o) {
  const std::int64_t inner = o.bn_size * o.growth_rate;
  Sequential layer{{"norm1", BatchNorm2d(channels)},
                   {"relu1", ReLU()},
                   {"conv1", Conv2d(channels, inner, 1, {.bias = false})},
                   {"norm2", BatchNorm2d(inner)},
                   {"relu2", ReLU()},
                   {"conv2", Conv2d(inner, o.growth_rate, 3, {.padding = 1, .bias = false})}};
  if (o.drop_rate > 0) layer.add("dropout", Dropout(o.drop_rate));
  return layer;
}

// The input of each layer is the block's input concatenated with the outputs of all earlier layers.
class DenseBlock : public Module {
 public:
  DenseBlock(std::int64_t layers, std::int64_t channels, const DenseNetOptions& o) {
    for (std::int64_t i = 0; i < layers; ++i) {
      register_module("denselayer" + std::to_string(i + 1),
                      dense_layer(channels + i * o.growth_rate, o));
    }
  }
  Tensor forward(const Tensor& input) override {
    // Two tensors at a time: one copy and one sum of gradients a layer, instead of one for each
    // earlier layer.
    Tensor features = input;
    for (std::size_t i = 0; i < child_count(); ++i) {
      features = cat({features, child(i)(features)}, 1);
    }
    return features;
  }
};

Sequential transition(std::int64_t in, std::int64_t out) {
  return {{"norm", BatchNorm2d(in)},
          {"relu", ReLU()},
          {"conv", Conv2d(in, out, 1, {.bias = false})},
          {"pool", AvgPool2d(2, {.stride = 2})}};
}

std::int64_t channels_after(std::size_t blocks, const DenseNetOptions& o) {
  std::int64_t channels = o.num_init_features;
  for (std::size_t i = 0; i < blocks; ++i) {
    if (i > 0) channels /= 2;  // the transition before the block
    channels += o.block_config[i] * o.growth_rate;
  }
  return channels;
}

Sequential features(const DenseNetOptions& o) {
  DL_CHECK(o.growth_rate > 0 && o.num_init_features > 0 && o.bn_size > 0 && o.num_classes > 0 &&
               std::ranges::min(o.block_config) > 0,
           kInvalidArgument,
           "DenseNet: growth_rate is {}, num_init_features {}, bn_size {}, num_classes {}, the "
           "smallest block {}; wanted at least 1 of each",
           o.growth_rate, o.num_init_features, o.bn_size, o.num_classes,
           std::ranges::min(o.block_config));
  DL_CHECK(o.drop_rate >= 0 && o.drop_rate <= 1, kInvalidArgument,
           "DenseNet: drop_rate is {}, wanted 0 to 1", o.drop_rate);
  Sequential all{
      {"conv0", Conv2d(3, o.num_init_features, 7, {.stride = 2, .padding = 3, .bias = false})},
      {"norm0", BatchNorm2d(o.num_init_features)},
      {"relu0", ReLU()},
      {"pool0", MaxPool2d(3, {.stride = 2, .padding = 1})}};
  std::int64_t channels = o.num_init_features;
  for (std::size_t i = 0; i < o.block_config.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    all.add("denseblock" + number, DenseBlock(o.block_config[i], channels, o));
    channels = channels_after(i + 1, o);
    if (i + 1 == o.block_config.size()) break;
    all.add("transition" + number, transition(channels, channels / 2));
    channels /= 2;
  }
  all.add("norm5", BatchNorm2d(channels));
  return all;
}

}  // namespace

DenseNet::DenseNet(DenseNetOptions options)
    : features_(register_module("features", features(options))),
      classifier_(register_module(
          "classifier",
          Linear(channels_after(options.block_config.size(), options), options.num_classes))) {
  const NoGradGuard no_grad;
  for (NamedTensor& parameter : named_parameters()) {
    if (parameter.tensor.dim() == 4) init::kaiming_normal_(parameter.tensor);
  }
  init::zeros_(classifier_.bias);
}

Tensor DenseNet::forward(const Tensor& input) {
  return classifier_(adaptive_avg_pool2d(relu(features_(input)), {1, 1}).flatten(1));
}

}  // namespace dl::nn::models
