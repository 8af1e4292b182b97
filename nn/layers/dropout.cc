#include "nn/layers/dropout.h"

#include "core/ops/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/repr.h"

namespace dl::nn {

Dropout::Dropout(double probability) : p(probability) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "Dropout: p is {}, wanted a probability, 0 to 1", p);
}

Tensor Dropout::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::dropout(input, p, {.training = is_training()});
}

std::string Dropout::extra_repr() const {
  return "p=" + python_float(p) + ", inplace=False";
}

Dropout2d::Dropout2d(double probability) : p(probability) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "Dropout2d: p is {}, wanted a probability, 0 to 1",
           p);
}

Tensor Dropout2d::forward(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined() && (input.dim() == 3 || input.dim() == 4), kShape,
           "Dropout2d: the input has shape {}, wanted [N, C, H, W] or [N, C, L]",
           input.defined() ? input.sizes().str() : "none");
  if (!is_training() || p == 0 || input.numel() == 0) return input;
  // One number a channel, as PyTorch draws them.
  Shape channels = input.sizes();
  for (std::size_t d = 2; d < channels.size(); ++d) channels[d] = 1;
  const Tensor kept =
      functional::dropout(ones(channels, {.dtype = input.dtype(), .device = input.device()}), p);
  return mul(input, kept);
}

std::string Dropout2d::extra_repr() const {
  return "p=" + python_float(p) + ", inplace=False";
}

}  // namespace dl::nn
