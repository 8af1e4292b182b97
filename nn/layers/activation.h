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
  std::string extra_repr() const override { return "approximate='" + options.approximate + "'"; }
  bool is_tanh() const noexcept { return options.approximate == "tanh"; }

  const GELUOptions options;
};

}  // namespace dl::nn
