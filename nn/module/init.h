// nn::init: initial values of parameters, drawn as torch.nn.init draws them.
//
// Every function writes its tensor in place without recording it, returns it, and draws from
// default_generator() unless another generator is given. The same seed and the same calls give
// PyTorch's bits. Tensors are floating; others throw kDType.
#pragma once

#include <cstdint>

#include "core/random/generator.h"
#include "core/tensor/tensor.h"

namespace dl::nn::init {

// While it lives, the functions below write and draw nothing on its thread, so that a module is
// made quickly: its parameters are not initialised, and load_state_dict() has to bring all of them.
class NoInitGuard {
 public:
  NoInitGuard() noexcept;
  ~NoInitGuard();
  NoInitGuard(const NoInitGuard&) = delete;
  NoInitGuard& operator=(const NoInitGuard&) = delete;

 private:
  bool was_off_;
};

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
// The gain that keeps the variance of a layer followed by this function; `negative_slope` is for
// kLeakyRelu. Convolutions count as kLinear.
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
  Nonlinearity nonlinearity = Nonlinearity::kLeakyRelu;  // the function after the layer
};
// U(-b, b), b = gain sqrt(3 / fan); N(0, gain^2 / fan), with the gain of the function after the
// layer: sqrt(2 / (1 + a^2)) for the default (He et al. 2015). An empty weight is allowed.
Tensor& kaiming_uniform_(Tensor& weight, KaimingOptions options = {},
                         Generator& generator = default_generator());
Tensor& kaiming_normal_(Tensor& weight, KaimingOptions options = {},
                        Generator& generator = default_generator());

// The normal distribution truncated to [low, high], drawn as in PyTorch 2.15.
Tensor& trunc_normal_(Tensor& tensor, double mean = 0, double std = 1, double low = -2,
                      double high = 2, Generator& generator = default_generator());
// The identity matrix; [rows, columns]. Throws kShape.
Tensor& eye_(Tensor& tensor);
// The identity convolution: [out, in, kernel...] of three to five dimensions, with 1 in the
// kernels' centres. Throws kShape.
Tensor& dirac_(Tensor& tensor, std::int64_t groups = 1);
// Orthogonal rows or columns, whichever are fewer, times gain (Saxe et al. 2013). Dimensions after
// the first count as one. Agrees with PyTorch up to rounding. Throws kShape, and like PyTorch
// kDType for float16 and bfloat16.
Tensor& orthogonal_(Tensor& tensor, double gain = 1, Generator& generator = default_generator());
// N(0, std^2), with the fraction `sparsity` of each column set to 0; [rows, columns]. As in
// PyTorch, default_generator() chooses the zeros even if another generator is given. Throws kShape.
Tensor& sparse_(Tensor& tensor, double sparsity, double std = 0.01,
                Generator& generator = default_generator());

// The initial values of nn.Linear and nn.Conv2d: the weight is kaiming_uniform_ with a = sqrt(5);
// the bias, if defined, is U(-b, b) with b = 1 / sqrt(fan_in).
void reset_weight_and_bias(Tensor& weight, Tensor& bias);

}  // namespace dl::nn::init
