#include "nn/functional/functional.h"

#include <span>

#include "core/base/error.h"
#include "core/ops/activation.h"
#include "core/ops/arithmetic.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/random/distributions.h"
#include "core/tensor/factories.h"

namespace dl::nn::functional {
namespace {

// 0 or 1 / (1 - p) for each element, drawn in row-major order.
template <typename T>
Tensor dropout_mask(const Shape& shape, double p, Generator& generator) {
  const Tensor mask = empty(shape, {.dtype = kDTypeOf<T>});
  const std::span<T> values(mask.data<T>(), static_cast<std::size_t>(mask.numel()));
  random::fill_bernoulli(values, 1 - p, generator);
  const T scale = T(1) / static_cast<T>(1 - p);
  for (T& value : values) value *= scale;
  return mask;
}

}  // namespace

#define DL_ACTIVATION(Layer, function, enumerator)                  \
  Tensor function(const Tensor& input, ActivationOptions options) { \
    if (!options.inplace) return dl::function(input);               \
    Tensor same = input;                                            \
    return dl::function##_(same);                                   \
  }
#include "nn/functional/activations.def"

GeluForm gelu_form(std::string_view approximate) {
  DL_CHECK(approximate == "none" || approximate == "tanh", kInvalidArgument,
           "gelu: approximate is '{}', wanted 'none' or 'tanh'", approximate);
  return approximate == "tanh" ? GeluForm::kTanh : GeluForm::kErf;
}

Tensor gelu(const Tensor& input, const GELUOptions& options) {
  return dl::gelu(input, gelu_form(options.approximate));
}

Tensor normalize(const Tensor& input, NormalizeOptions options) {
  const Tensor size = norm(input, options.p, options.dim, {.keepdim = true});
  const Tensor least = full({}, options.eps, {.dtype = size.dtype(), .device = size.device()});
  return div(input, maximum(size, least));
}

Tensor max_pool2d(const Tensor& input, IntPair kernel_size, MaxPool2dOptions options) {
  return dl::max_pool2d(input, {.kernel = kernel_size,
                                .stride = options.stride.value_or(kernel_size),
                                .padding = options.padding,
                                .dilation = options.dilation,
                                .ceil_mode = options.ceil_mode});
}

Tensor dropout(const Tensor& input, double p, DropoutOptions options, Generator& generator) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "dropout: p is {}, wanted a probability, 0 to 1", p);
  DL_CHECK(input.defined(), kInvalidArgument, "dropout: the input is undefined");
  DL_CHECK(is_floating(input.dtype()), kDType, "dropout: wanted a floating tensor, got {}",
           dl::name_of(input.dtype()));
  if (!options.training || p == 0 || input.numel() == 0) return input;
  if (p == 1) return mul(input, 0.0);
  if (input.device().type == DeviceType::kCUDA) return philox_dropout(input, p, generator);
  if (input.dtype() == DType::kF64) {
    return mul(input, dropout_mask<double>(input.sizes(), p, generator));
  }
  return mul(input, dropout_mask<float>(input.sizes(), p, generator).to(input.dtype()));
}

}  // namespace dl::nn::functional
