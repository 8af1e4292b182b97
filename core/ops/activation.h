// Activations and other functions of one element.
//
// All take floating tensors of any strides (relu and neg: any number) and keep shape, dtype and
// layout.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dl {

// max(x, 0); NaN stays NaN. The gradient at 0 is 0.
Tensor relu(const Tensor& input);
Tensor& relu_(Tensor& input);
Tensor tanh(const Tensor& input);
// 1 / (1 + e^-x)
Tensor sigmoid(const Tensor& input);

// How GELU is computed: with the error function, or by PyTorch's approximate = "tanh".
enum class GeluForm : std::uint8_t { kErf, kTanh };
// x times the normal distribution's share below x: 0.5 x (1 + erf(x / sqrt(2))), or
// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is up to 5e-4 off.
Tensor gelu(const Tensor& input, GeluForm form = GeluForm::kErf);

Tensor exp(const Tensor& input);
Tensor log(const Tensor& input);
Tensor sqrt(const Tensor& input);
Tensor pow(const Tensor& base, double exponent);

}  // namespace dl
