// Adagrad: steps that shrink with the sum of the squares of all gradients so far (Duchi et al.
// 2011), PyTorch's formulas.
//
//   g = gradient + weight_decay p;  s = s + g^2, from initial_accumulator_value on
//   p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps), t the parameter's own steps
#pragma once

#include "nn/optim/optimizer_of.h"

namespace dl::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;  // steps go up the gradient
};

extern template class OptimizerOf<AdagradOptions>;
using Adagrad = OptimizerOf<AdagradOptions>;

}  // namespace dl::optim
