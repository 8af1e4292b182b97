// The book's CNN, with its names: layer1, layer2, fc1, fc2.
#pragma once

#include <cstdint>

#include "nn/layers/linear.h"
#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::examples::book {

struct CNNOptions {
  std::int64_t channels = 1;  // of the images
  std::int64_t size = 28;     // their height and width
  std::int64_t classes = 10;
  bool bias = true;       // of all four layers
  bool third_fc = false;  // 512-256-10 in place of 512-10 (chapter 1)
};

// Two blocks of a 3x3 convolution, ReLU and 2x2 max pooling, then linear layers without an
// activation between them. 1,630,090 parameters for 1x28x28, 2,122,186 for 3x32x32.
class CNN : public nn::Module {
 public:
  explicit CNN(CNNOptions options = {});

  Tensor forward(const Tensor& x) override { return classify(features(x)); }
  // The two parts of forward(): layer1 and layer2, then the linear layers.
  Tensor features(const Tensor& x) { return layer2_(layer1_(x)).flatten(1); }
  Tensor classify(const Tensor& features);

 private:
  nn::Sequential& layer1_;
  nn::Sequential& layer2_;
  nn::Linear& fc1_;
  nn::Linear& fc2_;
  nn::Linear* fc3_ = nullptr;
};

}  // namespace dl::examples::book
