// Adam and AdamW: steps scaled by running means of the gradient and of its square (Kingma and Ba
// 2015; decoupled weight decay: Loshchilov and Hutter 2019), PyTorch's formulas.
//
//   g = gradient + weight_decay p                     Adam
//   p = p - lr weight_decay p                         AdamW, before the rest
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps), t the parameter's own steps
//   amsgrad: uses the largest v so far instead of v in the last line (Reddi et al. 2018)
#pragma once

#include <utility>

#include "nn/optim/optimizer_of.h"

namespace dl::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;  // steps go up the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;  // steps go up the gradient
};

extern template class OptimizerOf<AdamOptions>;
extern template class OptimizerOf<AdamWOptions>;
using Adam = OptimizerOf<AdamOptions>;
using AdamW = OptimizerOf<AdamWOptions>;

}  // namespace dl::optim
