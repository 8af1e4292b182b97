// RMSprop: the gradient divided by the root of its running mean square (Tieleman and Hinton 2012),
// PyTorch's formulas.
//
//   g = gradient + weight_decay p;  v = alpha v + (1 - alpha) g^2
//   d = g / (sqrt(v) + eps);  b = momentum b + d
//   p = p - lr d, or p - lr b with a momentum
//   centered: d uses v minus the square of the gradient's running mean (Graves 2013)
#pragma once

#include "nn/optim/optimizer_of.h"

namespace dl::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;  // steps go up the gradient
};

extern template class OptimizerOf<RMSpropOptions>;
using RMSprop = OptimizerOf<RMSpropOptions>;

}  // namespace dl::optim
