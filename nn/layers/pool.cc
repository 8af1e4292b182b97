#include "nn/layers/pool.h"

#include <fmt/format.h>

#include "nn/functional/functional.h"

namespace dl::nn {
namespace {

bool is_relu_before(const Fusion& fusion) {
  return fusion.before == Activation::kRelu && fusion.after == Activation::kNone;
}

}  // namespace

Tensor MaxPool2d::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::max_pool2d(input, kernel_size, options);
}

bool MaxPool2d::can_fuse(const Fusion& fusion) const {
  return is_exactly<MaxPool2d>() && is_relu_before(fusion);
}

Tensor MaxPool2d::forward_fused(const Tensor& input, const Fusion& fusion) {
  check_not_moved("a call");
  if (!is_relu_before(fusion)) return Module::forward_fused(input, fusion);
  return dl::max_pool2d(input, {.kernel = kernel_size,
                                .stride = options.stride.value_or(kernel_size),
                                .padding = options.padding,
                                .dilation = options.dilation,
                                .ceil_mode = options.ceil_mode,
                                .relu = true});
}

std::string MaxPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     kernel_size.as_given(), options.stride.value_or(kernel_size).as_given(),
                     options.padding.as_given(), options.dilation.as_given(),
                     options.ceil_mode ? "True" : "False");
}

}  // namespace dl::nn
