// nn::init: initial values of parameters, drawn as torch.nn.init draws them.
//
// Every function writes its tensor in place without recording it, returns it, and draws from
// default_generator() where no generator is given: the same seed and the same calls give PyTorch's
// bits. Tensors are f32 or f64; others throw kDType.
#pragma once

#include <cstdint>

#include "core/random/generator.h"
#include "core/tensor/tensor.h"

namespace dl::nn::init {

struct Fans {
  std::int64_t in;   // inputs of one output element
  std::int64_t out;  // outputs of one input element
};
// Of a weight [out, in, kernel...]. Throws kShape for fewer than two dimensions.
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
};
// U(-b, b), b = sqrt(6 / ((1 + a^2) fan)); N(0, 2 / ((1 + a^2) fan)) (He et al. 2015).
Tensor& kaiming_uniform_(Tensor& weight, KaimingOptions options = {},
                         Generator& generator = default_generator());
Tensor& kaiming_normal_(Tensor& weight, KaimingOptions options = {},
                        Generator& generator = default_generator());

// What nn.Linear and nn.Conv2d start with: the weight kaiming_uniform_ with a = sqrt(5), then the
// bias, if it is defined, U(-b, b) with b = 1 / sqrt(fan_in).
void reset_weight_and_bias(Tensor& weight, Tensor& bias);

}  // namespace dl::nn::init
