// nn::init: initial values of parameters, drawn as torch.nn.init draws them.
//
// Every function writes its tensor in place without recording it, returns it, and draws from
// default_generator() where no generator is given: the same seed and the same calls give PyTorch's
// bits. Tensors are floating; others throw kDType.
#pragma once

#include <cstdint>

#include "core/random/generator.h"
#include "core/tensor/tensor.h"

namespace dl::nn::init {

struct Fans {
  std::int64_t in;   // inputs of one output element
  std::int64_t out;  // outputs of one input element
};
// The fans of a weight [out, in, kernel...]. Throws kShape for fewer than two dimensions.
Fans fans_of(const Tensor& weight);

enum class FanMode : std::uint8_t { kFanIn, kFanOut };

// U[low, high)
Tensor& uniform_(Tensor& tensor, double low = 0, double high = 1,
                 Generator& generator = default_generator());
// N(mean, std^2)
Tensor& normal_(Tensor& tensor, double mean = 0, double std = 1,
                Generator& generator = default_generator());
Tensor& constant_(Tensor& tensor, double value);
Tensor& zeros_(Tensor& tensor);
Tensor& ones_(Tensor& tensor);

enum class Nonlinearity : std::uint8_t { kLinear, kSigmoid, kTanh, kRelu, kLeakyRelu, kSelu };
// The gain that keeps a layer's variance through this function after it; `negative_slope` is that
// of kLeakyRelu. Convolutions count as kLinear.
double calculate_gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

struct XavierOptions {
  double gain = 1;
};
// U(-b, b), b = gain sqrt(6 / (in + out)); N(0, gain^2 2 / (in + out)) (Glorot and Bengio 2010).
Tensor& xavier_uniform_(Tensor& weight, XavierOptions options = {},
                        Generator& generator = default_generator());
Tensor& xavier_normal_(Tensor& weight, XavierOptions options = {},
                       Generator& generator = default_generator());

struct KaimingOptions {
  double a = 0;  // negative slope of the leaky ReLU that follows; 0 is ReLU
  FanMode mode = FanMode::kFanIn;
  Nonlinearity nonlinearity = Nonlinearity::kLeakyRelu;  // what follows
};
// U(-b, b), b = gain sqrt(3 / fan); N(0, gain^2 / fan), with the gain of the function that follows:
// sqrt(2 / (1 + a^2)) for the default (He et al. 2015). An empty weight stays as it is.
Tensor& kaiming_uniform_(Tensor& weight, KaimingOptions options = {},
                         Generator& generator = default_generator());
Tensor& kaiming_normal_(Tensor& weight, KaimingOptions options = {},
                        Generator& generator = default_generator());

// N(mean, std^2) of the numbers in [low, high]; as PyTorch 2.15 draws them.
Tensor& trunc_normal_(Tensor& tensor, double mean = 0, double std = 1, double low = -2,
                      double high = 2, Generator& generator = default_generator());
// The unit matrix; [rows, columns]. Throws kShape.
Tensor& eye_(Tensor& tensor);
// A convolution that passes its input on: [out, in, kernel...] of three to five dimensions, with 1
// in the kernels' middles. Throws kShape.
Tensor& dirac_(Tensor& tensor, std::int64_t groups = 1);
// Orthogonal rows or columns, whichever are fewer, times gain (Saxe et al. 2013). Dimensions behind
// the first count as one. Agrees with PyTorch up to rounding. Throws kShape, and kDType for float16
// and bfloat16, as PyTorch's does.
Tensor& orthogonal_(Tensor& tensor, double gain = 1, Generator& generator = default_generator());
// N(0, std^2), and zeros for a share of each column; [rows, columns]. The rows of the zeros come
// from default_generator() also if another generator is given, as in PyTorch. Throws kShape.
Tensor& sparse_(Tensor& tensor, double sparsity, double std = 0.01,
                Generator& generator = default_generator());

// What nn.Linear and nn.Conv2d start with: the weight kaiming_uniform_ with a = sqrt(5), then the
// bias, if it is defined, U(-b, b) with b = 1 / sqrt(fan_in).
void reset_weight_and_bias(Tensor& weight, Tensor& bias);

}  // namespace dl::nn::init
