// Dropout: while training, zeroes elements at random and scales the others up (Srivastava et al.
// 2014).
#pragma once

#include <string>

#include "nn/module/module.h"

namespace dl::nn {

class Dropout : public Module {
 public:
  // Each element is zeroed with probability p, the others are multiplied by 1 / (1 - p). Draws from
  // default_generator(). Throws kInvalidArgument unless p is in [0, 1].
  explicit Dropout(double p = 0.5);

  // The input itself after eval().
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  double p;
};

}  // namespace dl::nn
