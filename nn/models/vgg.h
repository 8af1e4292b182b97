// VGG (Simonyan and Zisserman 2015), with 11 to 19 layers, with torchvision's names and initial
// values: torchvision's weights load into it.
#pragma once

#include <cstdint>

#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

struct VGGOptions {
  int depth = 16;           // 11, 13, 16 or 19 layers
  bool batch_norm = false;  // after each convolution
  std::int64_t num_classes = 1000;
  double dropout = 0.5;
};

// Input [N, 3, H, W] -> logits [N, num_classes]. H and W are at least 32: the image is halved five
// times. Parameters: 132,863,336 (11), 133,047,848 (13), 138,357,544 (16), 143,667,240 (19).
class VGG : public Module {
 public:
  // Throws kInvalidArgument unless depth is one of these, num_classes at least 1 and dropout in
  // [0, 1].
  explicit VGG(VGGOptions options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Sequential& features_;
  Module& avgpool_;
  Sequential& classifier_;
};

}  // namespace dl::nn::models
