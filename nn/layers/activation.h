// Activations: element by element, without parameters.
#pragma once

#include <string>

#include "nn/module/module.h"

namespace dl::nn {

struct ReLUOptions {
  bool inplace = false;  // overwrite the input
};

// max(0, x)
class ReLU : public Module {
 public:
  explicit ReLU(ReLUOptions given = {}) : options(given) {}

  Tensor forward(const Tensor& input) override;
  Activation activation() const override {
    return is_exactly<ReLU>() ? Activation::kRelu : Activation::kNone;
  }
  std::string extra_repr() const override { return options.inplace ? "inplace=True" : ""; }

  ReLUOptions options;
};

struct GELUOptions {
  std::string approximate = "none";  // or "tanh"
};

// x times the normal distribution's share below x (Hendrycks and Gimpel 2016).
class GELU : public Module {
 public:
  // Throws kInvalidArgument unless options.approximate is "none" or "tanh".
  explicit GELU(GELUOptions options = {});

  Tensor forward(const Tensor& input) override;
  Activation activation() const override {
    return is_exactly<GELU>() && options.approximate == "tanh" ? Activation::kGeluTanh
                                                               : Activation::kNone;
  }
  std::string extra_repr() const override { return "approximate='" + options.approximate + "'"; }

  const GELUOptions options;
};

}  // namespace dl::nn
