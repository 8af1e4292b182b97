#include "nn/functional/functional.h"

#include <cmath>
#include <span>

#include "core/base/error.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/embedding.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/distributions.h"
#include "core/random/tensor_random.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"

namespace dl::nn::functional {
namespace {

template <typename T>
void draw_mask(double p, Generator* generator, const Tensor& memory) {
  const std::span<T> values(memory.data<T>(), static_cast<std::size_t>(memory.numel()));
  random::fill_bernoulli(values, 1 - p, *generator);
  const T scale = T(1) / static_cast<T>(1 - p);
  for (T& value : values) value *= scale;
}

// 0 or 1 / (1 - p) for each element of `input`, in its memory layout and drawn in memory order.
template <typename T>
Tensor dropout_mask(const Tensor& input, double p, Generator& generator) {
  Tensor mask = empty_for(input.sizes(), {&input}, kDTypeOf<T>, input.device());
  const Tensor memory = dl::detail::draw_memory(mask);
  tape::run("dropout", 1, &draw_mask<T>, p, &generator, memory);
  if (!memory.is_same(mask)) mask.copy_(memory);
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
  if (input.device().type == DeviceType::kCUDA)
    return dl::detail::philox_dropout(input, p, generator);
  if (input.dtype() == DType::kF64) {
    return mul(input, dropout_mask<double>(input, p, generator));
  }
  return mul(input, dropout_mask<float>(input, p, generator).to(input.dtype()));
}

Tensor channel_dropout(const Tensor& input, double p, DropoutOptions options, std::string_view op,
                       Generator& generator) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "{}: p is {}, wanted a probability, 0 to 1", op, p);
  DL_CHECK(input.defined() && input.dim() >= 2, kShape,
           "{}: the input has shape {}, wanted "
           "[N, C, ...]",
           op, input.defined() ? input.sizes().str() : "none");
  if (!options.training || p == 0 || input.numel() == 0) return input;
  // One number for each channel, as PyTorch draws them.
  Shape channels = input.sizes();
  for (std::size_t d = 2; d < channels.size(); ++d) channels[d] = 1;
  return mul(input, dropout(ones(channels, {.dtype = input.dtype(), .device = input.device()}), p,
                            {}, generator));
}

Tensor alpha_dropout(const Tensor& input, double p, DropoutOptions options, Generator& generator) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument,
           "alpha_dropout: p is {}, wanted a probability, 0 to 1", p);
  DL_CHECK(input.defined(), kInvalidArgument, "alpha_dropout: the input is undefined");
  if (!options.training || p == 0 || input.numel() == 0) return input;
  if (p == 1) return mul(input, 0.0);
  constexpr double kAlpha = 1.7580993408473766;  // minus the limit of selu(x) for x -> -infinity
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Tensor kept = ne(dropout(ones_like(input), p, {}, generator), 0.0).to(input.dtype());
  const Tensor shift = (kept - 1) * (kAlpha * scale) + kAlpha * scale * p;
  return input * (kept * scale) + shift;
}

Tensor embedding(const Tensor& input, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx) {
  return dl::embedding(weight, input, padding_idx);
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  DL_CHECK(a.defined() && b.defined() && weight.defined(), kInvalidArgument,
           "bilinear: a tensor is undefined");
  DL_CHECK(weight.dim() == 3 && a.dim() > 0 && b.dim() == a.dim() && a.size(-1) == weight.size(1) &&
               b.size(-1) == weight.size(2),
           kShape,
           "bilinear: the inputs have shapes {} and {}, the weight {}; wanted [..., in1], "
           "[..., in2] and [out, in1, in2]",
           a.sizes().str(), b.sizes().str(), weight.sizes().str());
  // Multiplies each row of a by each matrix of the weight, then by its row of b.
  const std::int64_t out = weight.size(0);
  const std::int64_t in1 = weight.size(1);
  const std::int64_t in2 = weight.size(2);
  Shape shape = a.sizes();
  shape[shape.size() - 1] = out;
  const Tensor left = matmul(a.reshape({-1, in1}), weight.permute({1, 0, 2}).reshape({in1, -1}));
  const Tensor y = sum(left.view({-1, out, in2}) * b.reshape({-1, 1, in2}), {2}).view(shape);
  return bias.defined() ? y + bias : y;
}

}  // namespace dl::nn::functional
