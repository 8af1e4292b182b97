#include "nn/layers/pool.h"

#include <fmt/format.h>

#include "nn/functional/functional.h"

namespace dl::nn {
namespace {

bool is_relu_before(const Fusion& fusion) {
  return fusion.before == Activation::kRelu && fusion.after == Activation::kNone;
}

Tensor pool(const MaxPool2d& layer, const Tensor& input, bool relu) {
  return functional::max_pool2d(input, layer.kernel_size,
                                {.stride = layer.options.stride,
                                 .padding = layer.options.padding,
                                 .dilation = layer.options.dilation,
                                 .ceil_mode = layer.options.ceil_mode,
                                 .relu = relu});
}

}  // namespace

Tensor MaxPool2d::forward(const Tensor& input) {
  check_not_moved("a call");
  return pool(*this, input, false);
}

bool MaxPool2d::can_fuse(const Fusion& fusion) const {
  return is_exactly<MaxPool2d>() && is_relu_before(fusion);
}

Tensor MaxPool2d::forward_fused(const Tensor& input, const Fusion& fusion) {
  check_not_moved("a call");
  if (!is_relu_before(fusion)) return Module::forward_fused(input, fusion);
  return pool(*this, input, true);
}

std::string MaxPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     kernel_size.as_given(), options.stride.value_or(kernel_size).as_given(),
                     options.padding.as_given(), options.dilation.as_given(),
                     options.ceil_mode ? "True" : "False");
}

}  // namespace dl::nn
