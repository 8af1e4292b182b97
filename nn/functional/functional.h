// nn::functional: what layers compute, as functions, with PyTorch's names and defaults. All of them
// are recorded by autograd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/kernels/linear_args.h"
#include "core/ops/activation.h"
#include "core/ops/loss.h"
#include "core/ops/softmax.h"
#include "core/random/generator.h"
#include "core/tensor/tensor.h"
#include "nn/functional/int_pair.h"

namespace dl::nn::functional {

struct ActivationOptions {
  bool inplace = false;  // overwrite the input, which must not be a leaf that requires gradients
};
// relu(x, options) and the other functions of activations.def; docs/reference/operations.md says
// what they compute.
#define DL_ACTIVATION(Layer, function, enumerator) \
  Tensor function(const Tensor& input, ActivationOptions options = {});
#define DL_PLAIN_ACTIVATION(Layer, function) using dl::function;
#include "nn/functional/activations.def"

struct GELUOptions {
  std::string approximate = "none";  // or "tanh", as in PyTorch
};
// x times the normal distribution's share below x. Throws kInvalidArgument for other names.
Tensor gelu(const Tensor& input, const GELUOptions& options = {});
// The form that a name stands for.
GeluForm gelu_form(std::string_view approximate);

struct LinearOptions {
  Activation activation = Activation::kNone;  // of the result, in one pass where that is faster
};
// input [..., in], weight [out, in], bias [out] or undefined -> [..., out]
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              LinearOptions options = {});

struct Conv2dOptions {
  IntPair stride = 1;
  IntPair padding = 0;  // zeros on each side
  IntPair dilation = 1;
  std::int64_t groups = 1;
  bool relu = false;  // the result is relu(conv2d), computed in one pass
};
// input [N, C, H, W], weight [out, C / groups, kh, kw], bias [out] or undefined -> [N, out, H', W']
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              Conv2dOptions options = {});

struct MaxPool2dOptions {
  std::optional<IntPair> stride{};  // default: the window's size
  IntPair padding = 0;
  IntPair dilation = 1;
  bool ceil_mode = false;
  bool relu = false;  // the result is max_pool2d(relu(input)), computed in one pass
};
// input [N, C, H, W] -> [N, C, H', W']
Tensor max_pool2d(const Tensor& input, IntPair kernel_size, MaxPool2dOptions options = {});

struct DropoutOptions {
  bool training = true;
};
// While training, zeroes each element with probability p and multiplies the others by 1 / (1 - p).
// The mask is drawn in row-major order whatever the input's layout, so that the bits do not depend
// on it. Throws kInvalidArgument unless p is in [0, 1].
Tensor dropout(const Tensor& input, double p = 0.5, DropoutOptions options = {},
               Generator& generator = default_generator());

using dl::elu;
using dl::hardtanh;
using dl::leaky_relu;
using dl::log_softmax;
using dl::softmax;
using dl::softplus;
// Losses: core/ops/loss.h says what they take and throw.
using dl::cosine_embedding_loss;
using dl::Reduction;
#define DL_LOSS(Layer, function) using dl::function;
#include "nn/functional/losses.def"

}  // namespace dl::nn::functional
