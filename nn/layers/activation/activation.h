// Element-wise activations without parameters.
#pragma once

#include <string>

#include "nn/functional/functional.h"
#include "nn/module/module.h"

namespace dl::nn {

// A layer for each row of nn/functional/activations.def: ReLU({.inplace = true}), Tanh().
// NOLINTBEGIN(bugprone-macro-parentheses): names of classes
#define DL_ACTIVATION(Layer, function, enumerator)                                      \
  class Layer : public Module {                                                         \
   public:                                                                              \
    explicit Layer(functional::ActivationOptions given = {}) : options(given) {}        \
                                                                                        \
    Tensor forward(const Tensor& input) override;                                       \
    Activation activation() const override {                                            \
      return is_exactly<Layer>() ? kernels::activation_of(kernels::UnaryFn::enumerator) \
                                 : Activation::kNone;                                   \
    }                                                                                   \
    std::string extra_repr() const override {                                           \
      return options.inplace ? "inplace=True" : "";                                     \
    }                                                                                   \
                                                                                        \
    functional::ActivationOptions options;                                              \
  };
#define DL_PLAIN_ACTIVATION(Layer, function)      \
  class Layer : public Module {                   \
   public:                                        \
    Tensor forward(const Tensor& input) override; \
  };
// NOLINTEND(bugprone-macro-parentheses)
#include "nn/functional/activations.def"

// x times the normal distribution's cumulative probability (Hendrycks and Gimpel 2016).
class GELU : public Module {
 public:
  // Throws kInvalidArgument unless options.approximate is "none" or "tanh".
  explicit GELU(functional::GELUOptions options = {});

  Tensor forward(const Tensor& input) override;
  Activation activation() const override {
    return is_exactly<GELU>() && options.approximate == "tanh" ? Activation::kGeluTanh
                                                               : Activation::kNone;
  }
  std::string extra_repr() const override { return "approximate='" + options.approximate + "'"; }

  const functional::GELUOptions options;
};

}  // namespace dl::nn
