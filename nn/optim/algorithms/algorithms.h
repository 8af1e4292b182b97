// The optimizers, each with its options: SGD, Adam and AdamW, NAdam, RAdam, RMSprop, Adagrad. The
// formulas are PyTorch's. In them p is a parameter, and t the number of the parameter's own steps.
// An optimizer is a struct of options here, a file of its name beside this one, and a kind of step
// with its rule (core/args/optimizer_args.h).
#pragma once

#include <utility>

#include "nn/optim/optimizer_of.h"

namespace dl::optim {

// Stochastic gradient descent with momentum.
//
//   g = gradient + weight_decay p
//   v = g at a parameter's first step, then momentum v + (1 - dampening) g
//   p = p - lr v, or p - lr (g + momentum v) with nesterov (Sutskever et al. 2013)
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

// Steps scaled by running means of the gradient and of its square (Kingma and Ba 2015; decoupled
// weight decay: Loshchilov and Hutter 2019).
//
//   g = gradient + weight_decay p                     Adam
//   p = p - lr weight_decay p                         AdamW, before the rest
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)
//   amsgrad: uses the largest v so far instead of v in the last line (Reddi et al. 2018)
struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;  // steps go up the gradient
};
extern template class OptimizerOf<AdamOptions>;
using Adam = OptimizerOf<AdamOptions>;

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;  // steps go up the gradient
};
extern template class OptimizerOf<AdamWOptions>;
using AdamW = OptimizerOf<AdamWOptions>;

// Adam that takes the coming step's momentum into account (Dozat 2016).
//
//   u(t) = beta1 (1 - 0.96^(t momentum_decay) / 2);  U(t) = u(1) ... u(t)
//   m, v as Adam's
//   p = p - lr ((1 - u(t)) / (1 - U(t)) g + u(t+1) / (1 - U(t+1)) m)
//           / (sqrt(v / (1 - beta2^t)) + eps)
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

// Adam that scales its steps once the second mean has seen enough gradients, and corrects for those
// that it has not seen (Liu et al. 2020).
//
//   m, v as Adam's
//   L = 2 / (1 - beta2) - 1;  l = L - 2 t beta2^t / (1 - beta2^t)
//   p = p - lr / (1 - beta1^t) m                                       if l <= 5
//   p = p - lr / (1 - beta1^t) m r sqrt(1 - beta2^t) / (sqrt(v) + eps)  if l > 5,
//       r = sqrt((l - 4) (l - 2) L / ((L - 4) (L - 2) l))
struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // as AdamW's
  bool maximize = false;                // steps go up the gradient
};
extern template class OptimizerOf<RAdamOptions>;
using RAdam = OptimizerOf<RAdamOptions>;

// The gradient divided by the root of its running mean square (Tieleman and Hinton 2012).
//
//   g = gradient + weight_decay p;  v = alpha v + (1 - alpha) g^2
//   centered: v minus the square of the gradient's running mean below (Graves 2013)
//   d = g / (sqrt(v) + eps);  b = momentum b + d
//   p = p - lr d, or p - lr b with a momentum
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

// Steps that shrink with the sum of the squares of all gradients so far (Duchi et al. 2011).
//
//   g = gradient + weight_decay p;  s = s + g^2, from initial_accumulator_value on
//   p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
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
