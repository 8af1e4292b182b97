// EfficientNet (Tan and Le 2019), B0 to B7, with torchvision's names and initial values:
// torchvision's weights load into it.
#pragma once

#include <cstdint>

#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

struct EfficientNetOptions {
  int size = 0;  // 0 to 7: B0 (5,288,548 parameters) to B7 (66,347,960)
  // The last block is left out with this probability while training, those before it with less
  // (Huang et al. 2016).
  double stochastic_depth_prob = 0.2;
  std::int64_t num_classes = 1000;
};

// Input [N, 3, H, W] -> logits [N, num_classes]. Training wants more than one value a channel at
// the end: a batch of one image has more than 32 pixels a side.
class EfficientNet : public Module {
 public:
  // Throws kInvalidArgument for a size that there is not, a num_classes below 1, and a
  // stochastic_depth_prob outside of 0 to 1.
  explicit EfficientNet(EfficientNetOptions options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Sequential& features_;
  Sequential& classifier_;
};

}  // namespace dl::nn::models
