#include "nn/layers/activation/dropout.h"

#include "nn/functional/functional.h"
#include "nn/layers/repr.h"

namespace dl::nn {
namespace {

// An input of `alone` dimensions is one sample, treated as a batch of one.
Tensor drop_channels(const Module& layer, const Tensor& input, double p, std::int64_t alone,
                     std::string_view op) {
  if (input.defined() && input.dim() == alone) {
    return functional::channel_dropout(input.unsqueeze(0), p, {.training = layer.is_training()}, op)
        .squeeze(0);
  }
  return functional::channel_dropout(input, p, {.training = layer.is_training()}, op);
}

}  // namespace

#define DL_DROPOUT(Layer)                                                                     \
  Layer::Layer(double probability) : p(probability) {                                         \
    DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "{}: p is {}, wanted a probability, 0 to 1", \
             #Layer, p);                                                                      \
  }                                                                                           \
                                                                                              \
  std::string Layer::extra_repr() const {                                                     \
    return "p=" + python_float(p) + ", inplace=False";                                        \
  }
DL_DROPOUTS(DL_DROPOUT)
#undef DL_DROPOUT

Tensor Dropout::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::dropout(input, in_tape(p), {.training = is_training()});
}

Tensor Dropout1d::forward(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined() && (input.dim() == 2 || input.dim() == 3), kShape,
           "Dropout1d: the input has shape {}, wanted [N, C, L] or [C, L]",
           input.defined() ? input.sizes().str() : "none");
  return drop_channels(*this, input, in_tape(p), 2, "Dropout1d");
}

Tensor Dropout2d::forward(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined() && (input.dim() == 3 || input.dim() == 4), kShape,
           "Dropout2d: the input has shape {}, wanted [N, C, H, W] or [N, C, L]",
           input.defined() ? input.sizes().str() : "none");
  return drop_channels(*this, input, in_tape(p), 0, "Dropout2d");
}

Tensor Dropout3d::forward(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined() && (input.dim() == 4 || input.dim() == 5), kShape,
           "Dropout3d: the input has shape {}, wanted [N, C, D, H, W] or [C, D, H, W]",
           input.defined() ? input.sizes().str() : "none");
  return drop_channels(*this, input, in_tape(p), 4, "Dropout3d");
}

Tensor AlphaDropout::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::alpha_dropout(input, in_tape(p), {.training = is_training()});
}

}  // namespace dl::nn
