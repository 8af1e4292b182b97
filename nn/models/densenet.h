// DenseNet (Huang et al. 2017), with torchvision's names and initial values: torchvision's weights
// load into it.
#pragma once

#include <array>
#include <cstdint>

#include "nn/layers/linear.h"
#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

// The defaults are DenseNet121's.
struct DenseNetOptions {
  std::int64_t growth_rate = 32;                            // channels that each layer adds
  std::array<std::int64_t, 4> block_config{6, 12, 24, 16};  // layers of each block
  std::int64_t num_init_features = 64;                      // channels after the first convolution
  std::int64_t bn_size = 4;  // channels inside a layer, in units of growth_rate
  double drop_rate = 0;      // of a dropout after each layer
  std::int64_t num_classes = 1000;
};

// Input [N, 3, H, W] -> logits [N, num_classes]. H and W are at least 29: the image is halved five
// times. 7,978,856 parameters.
class DenseNet : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive and drop_rate is in [0, 1].
  explicit DenseNet(DenseNetOptions options = {});
  Tensor forward(const Tensor& input) override;

 private:
  Sequential& features_;
  Linear& classifier_;
};

}  // namespace dl::nn::models
