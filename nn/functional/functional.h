// nn::functional: layers as functions, with PyTorch's names and defaults. Autograd records all of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/generator.h"
#include "core/tensor/tensor.h"

namespace dl::nn::functional {

struct ActivationOptions {
  bool inplace = false;  // overwrite the input, which must not be a leaf that requires gradients
};
// relu(x, options) and the other functions of activations.def; docs/reference/operations.md has
// their formulas.
#define DL_ACTIVATION(Layer, function, enumerator) \
  Tensor function(const Tensor& input, ActivationOptions options = {});
#define DL_PLAIN_ACTIVATION(Layer, function) using dl::function;
#include "nn/functional/activations.def"

struct GELUOptions {
  std::string approximate = "none";  // or "tanh", as in PyTorch
};
// x times the normal distribution's cumulative probability. Throws kInvalidArgument unless
// options.approximate is "none" or "tanh".
Tensor gelu(const Tensor& input, const GELUOptions& options = {});
// The form for the name "none" or "tanh".
GeluForm gelu_form(std::string_view approximate);

struct NormalizeOptions {
  double p = 2;
  std::int64_t dim = 1;
  double eps = 1e-12;  // lower bound of the divisor
};
// The input divided by its norm along a dimension (core/ops/reduce/reduce.h).
Tensor normalize(const Tensor& input, NormalizeOptions options = {});

// core/ops/linear/linear.h and core/ops/conv/conv.h document their arguments.
using dl::conv2d;
using dl::linear;

struct MaxPool2dOptions {
  std::optional<IntPair> stride{};  // default: the window's size
  IntPair padding = 0;              // minus infinity on each side, at most half the window
  IntPair dilation = 1;
  bool ceil_mode = false;  // windows may reach beyond the end
};
// input [N, C, H, W] or [C, H, W] -> [.., C, H', W']
Tensor max_pool2d(const Tensor& input, IntPair kernel_size, MaxPool2dOptions options = {});

struct DropoutOptions {
  bool training = true;
};
// While training, zeroes each element with probability p and multiplies the others by 1 / (1 - p).
// The mask is drawn in row-major order for every layout, so that the result does not depend on the
// layout. Throws kInvalidArgument unless p is in [0, 1].
Tensor dropout(const Tensor& input, double p = 0.5, DropoutOptions options = {},
               Generator& generator = default_generator());

// Dropout of whole channels [n, c, ...] of [N, C, ...]: dropout1d, dropout2d and dropout3d. `op` is
// the name for error texts.
Tensor channel_dropout(const Tensor& input, double p, DropoutOptions options, std::string_view op,
                       Generator& generator = default_generator());
// Dropout that keeps the mean and variance of selu()'s output (Klambauer et al. 2017).
Tensor alpha_dropout(const Tensor& input, double p = 0.5, DropoutOptions options = {},
                     Generator& generator = default_generator());

// y[.., k] = sum of a[.., i] weight[k, i, j] b[.., j] over i and j, and bias[k].
//   weight  [out, in1, in2]; bias [out], or undefined
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

// The rows of `weight` that `input` names: core/ops/index/embedding.h, with PyTorch's order of
// arguments.
//   input   int64 of any shape, in [0, rows)
//   weight  [rows, width], floating
Tensor embedding(const Tensor& input, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx = {});
// Operations made of others: core/ops/index/indexing.h, core/ops/shape/shape.h and
// core/ops/elementwise/activation.h.
#define DL_COMPOSED_OP(...)
#define DL_COMPOSED_FUNCTIONAL(name, ...) using dl::name;
#include "core/ops/composed.def"
using dl::PadMode;
// Normalisation: core/ops/norm/norm.h.
using dl::batch_norm;
using dl::batch_norm_relu;
using dl::group_norm;
using dl::layer_norm;
using dl::rms_norm;

using dl::celu;
using dl::elu;
using dl::hardshrink;
using dl::hardtanh;
using dl::leaky_relu;
using dl::log_softmax;
using dl::softmax;
using dl::softplus;
using dl::softshrink;
using dl::threshold;
// Losses: core/ops/loss/loss.h documents arguments and errors.
using dl::linear_cross_entropy;
using dl::Reduction;
#define DL_LOSS(Layer, function) using dl::function;
#define DL_LOSS_OF_THREE(Layer, function, ...) using dl::function;
#define DL_LOSS_OF_FOUR(Layer, function, ...) using dl::function;
#include "nn/functional/losses.def"

}  // namespace dl::nn::functional
