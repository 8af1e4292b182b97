#include "examples/book/cnn.h"

#include "nn/layers/activation/activation.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/pool/pool.h"

namespace dl::examples::book {
namespace {

nn::Sequential block(std::int64_t in, std::int64_t out, bool bias) {
  return {nn::Conv2d(in, out, 3, {.stride = 1, .padding = 1, .bias = bias}), nn::ReLU(),
          nn::MaxPool2d(2, {.stride = 2})};
}

constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kSecondHidden = 256;

}  // namespace

CNN::CNN(CNNOptions options)
    : layer1_(register_module("layer1", block(options.channels, 32, options.bias))),
      layer2_(register_module("layer2", block(32, 64, options.bias))),
      fc1_(register_module("fc1", nn::Linear(64 * (options.size / 4) * (options.size / 4), kHidden,
                                             {.bias = options.bias}))),
      fc2_(register_module("fc2",
                           nn::Linear(kHidden, options.third_fc ? kSecondHidden : options.classes,
                                      {.bias = options.bias}))) {
  if (!options.third_fc) return;
  fc3_ =
      &register_module("fc3", nn::Linear(kSecondHidden, options.classes, {.bias = options.bias}));
}

Tensor CNN::classify(const Tensor& features) {
  const Tensor out = fc2_(fc1_(features));
  return fc3_ == nullptr ? out : (*fc3_)(out);
}

}  // namespace dl::examples::book
