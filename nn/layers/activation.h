// Activations: element by element, without parameters.
#pragma once

#include <string>

#include "nn/module/module.h"

namespace dl::nn {

struct ReLUOptions {
  bool inplace = false;  // overwrite the input
};

// max(0, x)
class ReLU : public Module {
 public:
  explicit ReLU(ReLUOptions given = {}) : options(given) {}

  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override { return options.inplace ? "inplace=True" : ""; }

  ReLUOptions options;
};

}  // namespace dl::nn
