// What several convolutional networks are made of.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "nn/layers/conv/conv.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/resample.h"
#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

// The nearest multiple of 8 that is at least 90 % of `wanted` channels, at least 8.
std::int64_t round_channels(double wanted);

struct ConvNorm {
  std::int64_t in;
  std::int64_t out;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

// A convolution that keeps the image's size (except for the stride), with its normalisation, and an
// activation behind them.
Sequential conv_norm(const ConvNorm& c, const BatchNormOptions& norm = {});
template <std::derived_from<Module> A>
Sequential conv_norm(const ConvNorm& c, const BatchNormOptions& norm, A activation) {
  Sequential layers = conv_norm(c, norm);
  layers.add(std::move(activation));
  return layers;
}

// Weights each channel by a function of all channels' means (Hu et al. 2018).
class SqueezeExcitation : public Module {
 public:
  // `gate` gives the weights.
  template <std::derived_from<Module> A, std::derived_from<Module> G>
  SqueezeExcitation(std::int64_t features, std::int64_t squeezed, A activation, G gate) {
    register_module("avgpool", AdaptiveAvgPool2d(1));
    register_module("fc1", Conv2d(features, squeezed, 1));
    register_module("fc2", Conv2d(squeezed, features, 1));
    register_module("activation", std::move(activation));
    register_module("scale_activation", std::move(gate));
  }
  Tensor forward(const Tensor& input) override;
};

// Initial values of torchvision's VGG and MobileNets: N(0, 2 / fan_out) for convolutions,
// N(0, 0.01^2) for linear layers, 0 for biases.
void init_convolutional(const Module& model);

}  // namespace dl::nn::models
