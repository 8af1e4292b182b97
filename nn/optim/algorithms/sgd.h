// SGD: stochastic gradient descent with momentum, PyTorch's formulas.
//
//   g = gradient + weight_decay p
//   v = g at a parameter's first step, then momentum v + (1 - dampening) g
//   p = p - lr v, or p - lr (g + momentum v) with nesterov (Sutskever et al. 2013)
#pragma once

#include "nn/optim/optimizer_of.h"

namespace dl::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs a momentum, and no dampening
  bool maximize = false;  // steps go up the gradient
};

extern template class OptimizerOf<SGDOptions>;
using SGD = OptimizerOf<SGDOptions>;

}  // namespace dl::optim
