#include "nn/module/init.h"

#include <cmath>
#include <numbers>
#include <span>
#include <string_view>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/distributions.h"

namespace dl::nn::init {
namespace {

// Runs fill(span) on the tensor's elements in row-major order, whatever its layout.
template <typename Fill>
Tensor& fill_random(Tensor& tensor, std::string_view op, const Fill& fill) {
  DL_CHECK(tensor.defined(), kInvalidArgument, "{}: the tensor is undefined", op);
  NoGradGuard no_grad;
  Tensor dense = tensor.is_contiguous() ? tensor : tensor.contiguous();
  const auto count = static_cast<std::size_t>(dense.numel());
  switch (tensor.dtype()) {
    case DType::kF32:
      fill(std::span(dense.data<float>(), count));
      break;
    case DType::kF64:
      fill(std::span(dense.data<double>(), count));
      break;
    default:
      throw_error(ErrorKind::kDType, "{}: the tensor is {}, wanted float32 or float64", op,
                  dl::name_of(tensor.dtype()));
  }
  if (dense.is_same(tensor)) {
    tensor.bump_version();
  } else {
    tensor.copy_(dense);
  }
  return tensor;
}

double kaiming_std(const Tensor& weight, const KaimingOptions& options) {
  const Fans fans = fans_of(weight);
  const double fan = static_cast<double>(options.mode == FanMode::kFanIn ? fans.in : fans.out);
  return std::sqrt(2.0 / (1 + options.a * options.a)) / std::sqrt(fan);
}

double xavier_std(const Tensor& weight, const XavierOptions& options) {
  const Fans fans = fans_of(weight);
  return options.gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

}  // namespace

Fans fans_of(const Tensor& weight) {
  DL_CHECK(weight.defined() && weight.dim() >= 2, kShape,
           "nn::init: fan in and fan out need a weight of at least 2 dimensions, got {}",
           weight.defined() ? weight.sizes().str() : "an undefined tensor");
  std::int64_t field = 1;
  for (std::int64_t d = 2; d < weight.dim(); ++d) field *= weight.size(d);
  return {.in = weight.size(1) * field, .out = weight.size(0) * field};
}

Tensor& uniform_(Tensor& tensor, double low, double high, Generator& generator) {
  return fill_random(tensor, "uniform_",
                     [&](auto out) { random::fill_uniform(out, low, high, generator); });
}

Tensor& normal_(Tensor& tensor, double mean, double std, Generator& generator) {
  return fill_random(tensor, "normal_",
                     [&](auto out) { random::fill_normal(out, mean, std, generator); });
}

Tensor& constant_(Tensor& tensor, double value) {
  NoGradGuard no_grad;
  return tensor.fill_(value);
}

Tensor& zeros_(Tensor& tensor) {
  return constant_(tensor, 0);
}

Tensor& ones_(Tensor& tensor) {
  return constant_(tensor, 1);
}

Tensor& xavier_uniform_(Tensor& weight, XavierOptions options, Generator& generator) {
  const double bound = std::numbers::sqrt3 * xavier_std(weight, options);
  return uniform_(weight, -bound, bound, generator);
}

Tensor& xavier_normal_(Tensor& weight, XavierOptions options, Generator& generator) {
  return normal_(weight, 0, xavier_std(weight, options), generator);
}

Tensor& kaiming_uniform_(Tensor& weight, KaimingOptions options, Generator& generator) {
  // The order of these operations decides the bound's last bit, and so the weights' bits.
  const double bound = std::numbers::sqrt3 * kaiming_std(weight, options);
  return uniform_(weight, -bound, bound, generator);
}

Tensor& kaiming_normal_(Tensor& weight, KaimingOptions options, Generator& generator) {
  return normal_(weight, 0, kaiming_std(weight, options), generator);
}

void reset_weight_and_bias(Tensor& weight, Tensor& bias) {
  if (weight.numel() > 0) kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  if (!bias.defined() || bias.numel() == 0) return;
  const auto fan = static_cast<double>(fans_of(weight).in);
  const double bound = fan > 0 ? 1 / std::sqrt(fan) : 0;
  uniform_(bias, -bound, bound);
}

}  // namespace dl::nn::init
