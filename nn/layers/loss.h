// Losses as modules: nn::CrossEntropyLoss({.label_smoothing = 0.1})(logits, target).
//
// core/ops/loss/loss.h has their formulas and the options' defaults. Weights among the options are
// buffers, as in PyTorch: they are in state_dict(), and to() moves them.
#pragma once

#include <cstdint>
#include <string>

#include "core/ops/loss/loss.h"
#include "nn/layers/linear.h"
#include "nn/module/module.h"

namespace dl::nn {

// The base of all losses: registers weights among the options as buffers.
class Loss : public Module {
 protected:
  template <typename Options>
  void register_weights(const Options& options) {
    if constexpr (requires { options.weight; }) {
      weight_ = &register_buffer("weight", options.weight);
    }
    if constexpr (requires { options.pos_weight; }) {
      pos_weight_ = &register_buffer("pos_weight", options.pos_weight);
    }
  }
  // The options with the current buffers.
  template <typename Options>
  Options with_weights(Options options) const {
    if constexpr (requires { options.weight; }) options.weight = *weight_;
    if constexpr (requires { options.pos_weight; }) options.pos_weight = *pos_weight_;
    return options;
  }

 private:
  Tensor* weight_ = nullptr;
  Tensor* pos_weight_ = nullptr;
};

// A module for each row of nn/functional/losses.def.
// NOLINTBEGIN(bugprone-macro-parentheses): names of classes
#define DL_LOSS(Layer, function)                                         \
  class Layer : public Loss {                                            \
   public:                                                               \
    explicit Layer(const Layer##Options& given = {}) : options(given) {  \
      register_weights(given);                                           \
    }                                                                    \
                                                                         \
    using Module::forward;                                               \
    Tensor forward(const Tensor& input, const Tensor& target) const;     \
    Tensor operator()(const Tensor& input, const Tensor& target) const { \
      return forward(input, target);                                     \
    }                                                                    \
                                                                         \
    const Layer##Options options;                                        \
  };
#define DL_LOSS_OF_THREE(Layer, function, a, b, c)                               \
  class Layer : public Module {                                                  \
   public:                                                                       \
    explicit Layer(const Layer##Options& given = {}) : options(given) {}         \
                                                                                 \
    using Module::forward;                                                       \
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const;     \
    Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c) const { \
      return forward(a, b, c);                                                   \
    }                                                                            \
                                                                                 \
    const Layer##Options options;                                                \
  };
#define DL_LOSS_OF_FOUR(Layer, function, a, b, c, d)                                              \
  class Layer : public Module {                                                                   \
   public:                                                                                        \
    explicit Layer(const Layer##Options& given = {}) : options(given) {}                          \
                                                                                                  \
    using Module::forward;                                                                        \
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) const;     \
    Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) const { \
      return forward(a, b, c, d);                                                                 \
    }                                                                                             \
                                                                                                  \
    const Layer##Options options;                                                                 \
  };
// NOLINTEND(bugprone-macro-parentheses)
#include "nn/functional/losses.def"

struct LinearCrossEntropyLossOptions {
  Shape out_features{};  // d...: a loss for each of these positions
  bool bias = false;
  DType dtype = DType::kF32;
  // As in CrossEntropyLossOptions.
  Tensor weight{};
  std::int64_t ignore_index = kIgnoreIndex;
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0;
};
// linear_cross_entropy() of its own linear layer. Names and initial values are PyTorch's.
class LinearCrossEntropyLoss : public Loss {
 public:
  // Throws kInvalidArgument for negative sizes and a label_smoothing outside [0, 1], kShape for a
  // weight of another shape than [num_classes].
  LinearCrossEntropyLoss(std::int64_t in_features, std::int64_t num_classes,
                         const LinearCrossEntropyLossOptions& given = {});

  using Module::forward;
  // input [N, in_features] or [in_features]; target as in linear_cross_entropy()
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const {
    return forward(input, target);
  }
  std::string extra_repr() const override;

  std::int64_t num_classes;
  const LinearCrossEntropyLossOptions options;
  Linear& linear;  // weight [num_classes d..., in_features]
};

}  // namespace dl::nn
