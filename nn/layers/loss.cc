#include "nn/layers/loss.h"

#include <fmt/format.h>

#include "nn/layers/repr.h"

namespace dl::nn {

#define DL_LOSS(Layer, function)                                           \
  Tensor Layer::forward(const Tensor& input, const Tensor& target) const { \
    check_not_moved("a call");                                             \
    return dl::function(input, target, with_weights(options));             \
  }
// NOLINTBEGIN(bugprone-macro-parentheses): names of parameters
#define DL_LOSS_OF_THREE(Layer, function, a, b, c)                                 \
  Tensor Layer::forward(const Tensor& a, const Tensor& b, const Tensor& c) const { \
    check_not_moved("a call");                                                     \
    return dl::function(a, b, c, options);                                         \
  }
#define DL_LOSS_OF_FOUR(Layer, function, a, b, c, d)                                        \
  Tensor Layer::forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) \
      const {                                                                               \
    check_not_moved("a call");                                                              \
    return dl::function(a, b, c, d, options);                                               \
  }
// NOLINTEND(bugprone-macro-parentheses)
#include "nn/functional/losses.def"

namespace {

// The rows of the linear layer: a number for each class and position.
std::int64_t logits_of(std::int64_t classes, const Shape& positions) {
  DL_CHECK(classes >= 0, kInvalidArgument,
           "LinearCrossEntropyLoss: num_classes is {}, wanted 0 or more", classes);
  for (const std::int64_t size : positions) {
    DL_CHECK(size >= 0, kInvalidArgument,
             "LinearCrossEntropyLoss: out_features is {}, wanted sizes of 0 or more",
             positions.str());
    classes *= size;
  }
  return classes;
}

const char* name_of_reduction(Reduction reduction) {
  return reduction == Reduction::kNone ? "none" : reduction == Reduction::kSum ? "sum" : "mean";
}

}  // namespace

LinearCrossEntropyLoss::LinearCrossEntropyLoss(std::int64_t in_features, std::int64_t classes,
                                               const LinearCrossEntropyLossOptions& given)
    : num_classes(classes),
      options(given),
      linear(register_module("linear", Linear(in_features, logits_of(classes, given.out_features),
                                              {.bias = given.bias, .dtype = given.dtype}))) {
  const double smoothing = given.label_smoothing;
  DL_CHECK(smoothing >= 0 && smoothing <= 1, kInvalidArgument,
           "LinearCrossEntropyLoss: label_smoothing is {}, wanted a share, 0 to 1", smoothing);
  DL_CHECK(!given.weight.defined() || given.weight.sizes() == Shape{classes}, kShape,
           "LinearCrossEntropyLoss: the weight has shape {}, wanted [{}]",
           given.weight.sizes().str(), classes);
  register_weights(given);
}

Tensor LinearCrossEntropyLoss::forward(const Tensor& input, const Tensor& target) const {
  check_not_moved("a call");
  Shape outputs = options.out_features;
  outputs.insert(0, num_classes);
  Shape sizes = outputs;
  sizes.push_back(linear.in_features);
  const Tensor bias = linear.bias.defined() ? linear.bias.reshape(outputs) : Tensor();
  const LinearCrossEntropyLossOptions now = with_weights(options);
  return dl::linear_cross_entropy(input, linear.weight.reshape(sizes), target, bias,
                                  {.weight = now.weight,
                                   .ignore_index = now.ignore_index,
                                   .reduction = now.reduction,
                                   .label_smoothing = now.label_smoothing});
}

std::string LinearCrossEntropyLoss::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format(
      "in_features={}, num_classes={}, out_features={}, bias={}, reduction={}, ignore_index={}, "
      "label_smoothing={}",
      linear.in_features, num_classes, python_tuple(options.out_features),
      python_bool(options.bias), name_of_reduction(options.reduction), options.ignore_index,
      python_float(options.label_smoothing));
}

}  // namespace dl::nn
