#include "nn/models/blocks/blocks.h"

#include <algorithm>

#include "core/ops/elementwise/arithmetic.h"
#include "nn/module/init.h"

namespace dl::nn::models {

std::int64_t round_channels(double wanted) {
  constexpr std::int64_t kDivisor = 8;
  const auto nearest =
      static_cast<std::int64_t>(wanted + double{kDivisor} / 2) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, nearest);
  return static_cast<double>(result) < 0.9 * wanted ? result + kDivisor : result;
}

Sequential conv_norm(const ConvNorm& c, const BatchNormOptions& norm) {
  return {
      Conv2d(
          c.in, c.out, c.kernel,
          {.stride = c.stride, .padding = (c.kernel - 1) / 2, .groups = c.groups, .bias = false}),
      BatchNorm2d(c.out, norm)};
}

Tensor SqueezeExcitation::forward(const Tensor& input) {
  enum : std::size_t { kPool, kFirst, kSecond, kActivation, kGate };
  Module* const chain[] = {&child(kPool), &child(kFirst), &child(kActivation), &child(kSecond),
                           &child(kGate)};
  return input * forward_chain(chain, input);
}

void init_convolutional(const Module& model) {
  for (NamedTensor& parameter : model.named_parameters()) {
    Tensor& tensor = parameter.tensor;
    if (tensor.dim() == 4) {
      init::kaiming_normal_(tensor, {.mode = init::FanMode::kFanOut});
    } else if (tensor.dim() == 2) {
      init::normal_(tensor, 0, 0.01);
    } else if (parameter.name.ends_with("bias")) {
      init::zeros_(tensor);
    }
  }
}

}  // namespace dl::nn::models
