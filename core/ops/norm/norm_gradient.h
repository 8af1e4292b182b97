// The gradients of a normalisation as recorded operations, for gradients of gradients.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {

struct NormGradients {
  Tensor input;
  Tensor weight;  // of the elements that share one weight: [weights]
  Tensor bias;
};

// The settings of a normalisation y = weight (x - mean) / sqrt(variance + eps) + bias.
struct Normalised {
  Dims over;             // the dimensions of a mean
  Dims shared;           // the dimensions that share a weight
  bool centered = true;  // false: mean is 0, the variance that of the squares
  double eps = 0;
  Tensor mean{};  // if constant: broadcast to x, as is the next
  Tensor rstd{};
};

// `x`, `grad` of y and `weight` have one dtype; `weight` is broadcast to x, or undefined.
NormGradients norm_gradients(const Normalised& how, const Tensor& x, const Tensor& grad,
                             const Tensor& weight);

}  // namespace dl
