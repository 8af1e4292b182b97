// Activations with arguments besides the tensor. Functions of a tensor alone are in elementwise.h.
//
// They accept floating tensors of any strides and keep shape, dtype and layout.
#pragma once

#include <cstdint>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/elementwise/numeric.h"
#include "core/tensor/tensor.h"

namespace dl {

// How GELU is computed: with the error function, or by PyTorch's approximate = "tanh".
enum class GeluForm : std::uint8_t { kErf, kTanh };
// 0.5 x (1 + erf(x / sqrt(2))), that is x times the normal distribution's cumulative probability.
// kTanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which differs by up to 5e-4.
Tensor gelu(const Tensor& input, GeluForm form = GeluForm::kErf);

// PyTorch's functions of these names, with PyTorch's defaults.
Tensor leaky_relu(const Tensor& input, double negative_slope = 0.01);
Tensor elu(const Tensor& input, double alpha = 1.0);
Tensor softplus(const Tensor& input, double beta = 1.0, double threshold = 20.0);
// Throws kInvalidArgument for an alpha of 0.
Tensor celu(const Tensor& input, double alpha = 1.0);
// Throw kInvalidArgument for a lambd below 0.
Tensor softshrink(const Tensor& input, double lambd = 0.5);
Tensor hardshrink(const Tensor& input, double lambd = 0.5);
Tensor threshold(const Tensor& input, double threshold, double value);
// x if x > 0, else weight x: a learned leaky_relu. The weight has one element, or one for each
// channel (dimension 1). Throws kShape for other sizes.
Tensor prelu(const Tensor& input, const Tensor& weight);
// The first half of a dimension times the sigmoid of the second half (Dauphin et al. 2017). Throws
// kShape for an odd size.
Tensor glu(const Tensor& input, std::int64_t dim = -1);
// Throws kInvalidArgument unless min_val < max_val.
Tensor hardtanh(const Tensor& input, double min_val = -1.0, double max_val = 1.0);

}  // namespace dl
