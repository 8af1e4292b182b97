// NAdam: Adam that takes the coming step's momentum into account (Dozat 2016), PyTorch's formulas.
//
//   u(t) = beta1 (1 - 0.96^(t momentum_decay) / 2);  U(t) = u(1) ... u(t)
//   m, v as Adam's
//   p = p - lr ((1 - u(t)) / (1 - U(t)) g + u(t+1) / (1 - U(t+1)) m)
//           / (sqrt(v / (1 - beta2^t)) + eps)
#pragma once

#include <utility>

#include "nn/optim/optimizer_of.h"

namespace dl::optim {

struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  // as AdamW's
  bool maximize = false;                // steps go up the gradient
};

extern template class OptimizerOf<NAdamOptions>;
using NAdam = OptimizerOf<NAdamOptions>;

}  // namespace dl::optim
