// EfficientNet (Tan and Le 2019), B0 to B7, with torchvision's names and initial values:
// torchvision's weights load into it.
#pragma once

#include <cstdint>

#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

struct EfficientNetOptions {
  int size = 0;  // 0 to 7: B0 (5,288,548 parameters) to B7 (66,347,960)
  // In training, the last block is skipped with this probability, earlier blocks with a smaller one
  // (Huang et al. 2016).
  double stochastic_depth_prob = 0.2;
  std::int64_t num_classes = 1000;
};

// Input [N, 3, H, W] -> logits [N, num_classes]. Training needs more than one value for each
// channel at the end: a single image must have more than 32 pixels a side.
class EfficientNet : public Module {
 public:
  // Throws kInvalidArgument unless size is 0 to 7, num_classes is at least 1, and
  // stochastic_depth_prob is in [0, 1].
  explicit EfficientNet(EfficientNetOptions options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Sequential& features_;
  Sequential& classifier_;
};

}  // namespace dl::nn::models
