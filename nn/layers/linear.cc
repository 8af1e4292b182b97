#include "nn/layers/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/ops/linear/linear.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/check_input.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

std::int64_t not_negative(std::int64_t value, std::string_view what) {
  DL_CHECK(value >= 0, kInvalidArgument, "Linear: {} is {}, wanted at least 0", what, value);
  return value;
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, LinearOptions options)
    : in_features(not_negative(in, "in_features")),
      out_features(not_negative(out, "out_features")),
      weight(register_parameter("weight", empty({out, in}, {.dtype = options.dtype}))),
      bias(register_parameter("bias",
                              options.bias ? empty({out}, {.dtype = options.dtype}) : Tensor())) {
  reset_parameters();
}

void Linear::reset_parameters() {
  check_not_moved("reset_parameters");
  init::reset_weight_and_bias(weight, bias);
}

Tensor Linear::forward(const Tensor& input) {
  check_not_moved("a call");
  check_size("Linear", "in_features", in_features, input, -1, "features");
  return dl::linear(input, weight, bias);
}

bool Linear::can_fuse(const Fusion& fusion) const {
  return is_exactly<Linear>() && fusion.before == Activation::kNone && !fusion.residual.defined();
}

Tensor Linear::forward_fused(const Tensor& input, const Fusion& fusion) {
  check_not_moved("a call");
  if (!can_fuse(fusion)) return Module::forward_fused(input, fusion);
  check_size("Linear", "in_features", in_features, input, -1, "features");
  return dl::linear(input, weight, bias, {.activation = fusion.after});
}

std::string Linear::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("in_features={}, out_features={}, bias={}", in_features, out_features,
                     bias.defined() ? "True" : "False");
}

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, BilinearOptions options)
    : in1_features(in1),
      in2_features(in2),
      out_features(out),
      weight(register_parameter(
          "weight", empty({std::max<std::int64_t>(out, 0), std::max<std::int64_t>(in1, 0),
                           std::max<std::int64_t>(in2, 0)},
                          {.dtype = options.dtype}))),
      bias(register_parameter(
          "bias", options.bias ? empty({std::max<std::int64_t>(out, 0)}, {.dtype = options.dtype})
                               : Tensor())) {
  DL_CHECK(in1 > 0 && in2 > 0 && out > 0, kInvalidArgument,
           "Bilinear: in1_features, in2_features and out_features are {}, {} and {}, wanted at "
           "least 1",
           in1, in2, out);
  reset_parameters();
}

void Bilinear::reset_parameters() {
  check_not_moved("reset_parameters");
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) const {
  check_not_moved("a call");
  check_size("Bilinear", "in1_features", in1_features, a, -1, "features");
  check_size("Bilinear", "in2_features", in2_features, b, -1, "features");
  return functional::bilinear(a, b, weight, bias);
}

std::string Bilinear::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", in1_features,
                     in2_features, out_features, bias.defined() ? "True" : "False");
}

}  // namespace dl::nn
