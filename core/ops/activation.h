// Activations and other functions of one element.
//
// All take floating tensors of any strides (relu and neg: any number) and keep shape, dtype and
// layout.
#pragma once

#include "core/tensor/tensor.h"

namespace dl {

// max(x, 0); NaN stays NaN. The gradient at 0 is 0.
Tensor relu(const Tensor& input);
Tensor& relu_(Tensor& input);
Tensor tanh(const Tensor& input);
// 1 / (1 + e^-x)
Tensor sigmoid(const Tensor& input);

Tensor exp(const Tensor& input);
Tensor log(const Tensor& input);
Tensor sqrt(const Tensor& input);
Tensor pow(const Tensor& base, double exponent);

}  // namespace dl
