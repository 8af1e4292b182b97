#include "nn/layers/pool.h"

#include <fmt/format.h>

#include "nn/functional/functional.h"

namespace dl::nn {
namespace {

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

Tensor MaxPool2d::forward_of_relu(const Tensor& input) {
  check_not_moved("a call");
  return pool(*this, input, true);
}

std::string MaxPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     kernel_size.as_given(), options.stride.value_or(kernel_size).as_given(),
                     options.padding.as_given(), options.dilation.as_given(),
                     options.ceil_mode ? "True" : "False");
}

}  // namespace dl::nn
