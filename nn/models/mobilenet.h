// MobileNetV2 (Sandler et al. 2018) and MobileNetV3 (Howard et al. 2019), with torchvision's names
// and initial values: torchvision's weights load into them.
#pragma once

#include <cstdint>

#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

struct MobileNetV2Options {
  double width_mult = 1;  // factor of the channels
  double dropout = 0.2;
  std::int64_t num_classes = 1000;
};

// Input [N, 3, H, W] -> logits [N, num_classes]. The image is halved five times. 3,504,872
// parameters.
class MobileNetV2 : public Module {
 public:
  // Throws kInvalidArgument unless width_mult and num_classes are positive and dropout is in
  // [0, 1].
  explicit MobileNetV2(MobileNetV2Options options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Sequential& features_;
  Sequential& classifier_;
};

struct MobileNetV3Options {
  bool small = false;  // mobilenet_v3_small, else mobilenet_v3_large
  double width_mult = 1;
  double dropout = 0.2;
  std::int64_t num_classes = 1000;
};

// Input and output as of MobileNetV2. Parameters: 5,483,032 (large), 2,542,856 (small).
class MobileNetV3 : public Module {
 public:
  // Throws as MobileNetV2().
  explicit MobileNetV3(MobileNetV3Options options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Sequential& features_;
  Module& avgpool_;
  Sequential& classifier_;
};

}  // namespace dl::nn::models
