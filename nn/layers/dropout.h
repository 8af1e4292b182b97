// Dropout, Dropout2d: while training, zeroes elements at random and scales the others up
// (Srivastava et al. 2014).
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

// Zeroes whole channels [n, c] of images [N, C, H, W], or of [N, C, L] (Tompson et al. 2015).
class Dropout2d : public Module {
 public:
  // As Dropout.
  explicit Dropout2d(double p = 0.5);

  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  double p;
};

}  // namespace dl::nn
