// ResNet (He et al. 2016), 18 to 152, with torchvision's names and initial values: torchvision's
// weights load into it.
#pragma once

#include <cstdint>

#include "nn/module/module.h"

namespace dl::nn::models {

struct ResNetOptions {
  int depth = 18;  // 18, 34, 50, 101 or 152 layers
  std::int64_t num_classes = 1000;
  // For images such as CIFAR's: the first convolution is 3x3 with stride 1, and no pooling follows.
  bool small_images = false;
};

// Input [N, 3, H, W] -> logits [N, num_classes]. The image is halved five times; a small one three
// times. Parameters: 11,689,512 (18), 21,797,672 (34), 25,557,032 (50), 44,549,160 (101),
// 60,192,808 (152).
class ResNet : public Module {
 public:
  // Throws kInvalidArgument unless depth is one of these and num_classes at least 1.
  explicit ResNet(ResNetOptions options = {});
  Tensor forward(const Tensor& input) override;
};

}  // namespace dl::nn::models
