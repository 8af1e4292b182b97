#include "core/ops/conv/conv_gradient.h"

#include "core/ops/common.h"
#include "core/ops/layout.h"

namespace dl {
namespace {

// Inputs and saved: the convolution's input, and the gradient of its output.
struct Conv2dWeightGradient final : ComposedNode {
  std::string_view name() const noexcept override { return "conv2d"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) {
      context.give(0, conv2d_input_gradient(saved(1), g, args, input_shape));
    }
    if (context.needs(1)) context.give(1, conv2d(saved(0), g, {}, args));
  }
  Conv2dArgs args;
  Shape input_shape;
};

}  // namespace

Tensor conv2d_input_gradient(const Tensor& grad, const Tensor& weight, const Conv2dArgs& args,
                             const Shape& shape) {
  // Rows and columns at the end that no window covers.
  const auto uncovered = [&](std::size_t d) {
    return shape[d + 2] + 2 * args.padding[d] - args.dilation[d] * (weight.sizes()[d + 2] - 1) - 1 -
           (grad.sizes()[d + 2] - 1) * args.stride[d];
  };
  return conv_transpose2d(grad, weight, {},
                          {.stride = args.stride,
                           .padding = args.padding,
                           .output_padding = {uncovered(0), uncovered(1)},
                           .dilation = args.dilation,
                           .groups = args.groups});
}

Tensor conv2d_weight_gradient(const Tensor& input, const Tensor& grad, const Conv2dArgs& args,
                              const Shape& shape) {
  const Tensor x = laid_out(input, MemoryFormat::kChannelsLast);
  const Tensor g = laid_out(grad, MemoryFormat::kChannelsLast);
  const Tensor result = empty(shape, {.dtype = grad.dtype(), .device = grad.device()});
  Conv2dArgs plain = args;
  plain.relu = false;
  call<Op::kConv2dBackwardWeight>(grad.device(), x, g, plain, result, Tensor());
  if (auto* node = record<Conv2dWeightGradient>(result, input, grad)) {
    node->args = plain;
    node->input_shape = input.sizes();
    node->save_input(0, needs_grad(grad) ? x : Tensor());
    node->save_input(1, needs_grad(input) ? g : Tensor());
  }
  return result;
}

}  // namespace dl
