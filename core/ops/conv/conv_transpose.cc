#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/conv/conv.h"
#include "core/ops/conv/conv_gradient.h"
#include "core/ops/conv/unbatched.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/layout.h"
#include "core/ops/shape/shape.h"

namespace dl {
namespace {

constexpr auto kFiltered = MemoryFormat::kChannelsLast;

// Inputs and saved: input (channels-last), weight.
struct ConvTranspose2dBackward final : Node {
  std::string_view name() const noexcept override { return "conv_transpose2d"; }
  std::string grad_fn_name() const override { return "ConvolutionBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output(), kFiltered);
    const Tensor& input = saved(0);
    const Tensor& weight = saved(1);
    if (context.needs(1)) {
      const Tensor d = empty_like(weight);
      call<Op::kConv2dBackwardWeight>(grad.device(), grad, input, args, d, Tensor());
      context.give(1, d);
    }
    if (!context.needs(0)) return;
    const Tensor d = empty_like(input);
    call<Op::kConv2d>(grad.device(), grad, weight, Tensor(), args, d);
    context.give(0, with_visible_format(d, in_torch));
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    // The convolution whose gradient this is takes `grad` to the input.
    if (context.needs(1)) {
      context.give(1, conv2d_weight_gradient(grad, saved(0), args, saved(1).sizes()));
    }
    if (context.needs(0)) context.give(0, conv2d(grad, saved(1), {}, args));
  }
  Conv2dArgs args;
  MemoryFormat in_torch = kFiltered;  // of the result and of the input's gradient
};

void check_transposed(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const ConvTranspose2dArgs& args) {
  constexpr std::string_view kOp = "conv_transpose2d";
  check_defined(input, kOp, "the input");
  check_defined(weight, kOp, "the weight");
  check_same_device(input, weight, kOp);
  check_floating(input, kOp);
  DL_CHECK(
      input.dim() == 4 && weight.dim() == 4 && input.size(2) > 0 && input.size(3) > 0 &&
          weight.numel() > 0,
      kShape,
      "{}: the input has shape {}, wanted [N, C, H, W] or [C, H, W] with at least 1 pixel, and the "
      "weight {}, wanted [C, O / groups, kh, kw]",
      kOp, input.sizes().str(), weight.sizes().str());
  DL_CHECK(weight.dtype() == input.dtype(), kDType, "{}: the input is {}, but the weight is {}",
           kOp, name_of(input.dtype()), name_of(weight.dtype()));
  DL_CHECK(args.groups >= 1 && input.size(1) == weight.size(0) && input.size(1) % args.groups == 0,
           kShape,
           "{}: the input {} has {} channels, wanted the {} of the weight {}, a multiple of groups "
           "= {}",
           kOp, input.sizes().str(), input.size(1), weight.size(0), weight.sizes().str(),
           args.groups);
  for (const std::size_t d : {0u, 1u}) {
    DL_CHECK(args.stride[d] >= 1 && args.dilation[d] >= 1 && args.padding[d] >= 0, kInvalidArgument,
             "{}: stride is ({}, {}), dilation ({}, {}) and padding ({}, {}), wanted at least 1, 1 "
             "and 0",
             kOp, args.stride[0], args.stride[1], args.dilation[0], args.dilation[1],
             args.padding[0], args.padding[1]);
    DL_CHECK(args.output_padding[d] >= 0 &&
                 args.output_padding[d] < std::max(args.stride[d], args.dilation[d]),
             kInvalidArgument,
             "{}: output_padding is ({}, {}), wanted at least 0 and less than the stride ({}, {}) "
             "or the dilation ({}, {})",
             kOp, args.output_padding[0], args.output_padding[1], args.stride[0], args.stride[1],
             args.dilation[0], args.dilation[1]);
  }
  if (!bias.defined()) return;
  const std::int64_t outputs = weight.size(1) * args.groups;
  DL_CHECK(bias.dim() == 1 && bias.size(0) == outputs, kShape,
           "{}: the bias has shape {}, wanted [{}]", kOp, bias.sizes().str(), outputs);
}

// For an output_padding of at least the stride, which is allowed below the dilation. No convolution
// has an input of the result's size, so this computes the unpadded result, then cuts or pads it.
Tensor cut_from_whole(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const ConvTranspose2dArgs& args) {
  ConvTranspose2dArgs whole = args;
  whole.padding = 0;
  whole.output_padding = 0;
  const Tensor y = conv_transpose2d(input, weight, {}, whole);
  const auto behind = [&](std::size_t d) { return args.output_padding[d] - args.padding[d]; };
  const Tensor result = pad(y, {-args.padding[1], behind(1), -args.padding[0], behind(0)});
  return bias.defined() ? add(result, bias.view({1, bias.size(0), 1, 1})) : result;
}

}  // namespace

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dArgs& args) {
  if (const auto cast = autocast_of<Op::kConv2d>(input)) {
    return conv_transpose2d(cast(input), cast(weight), cast(bias), args);
  }
  if (is_unbatched(input, 4)) [[unlikely]] {
    return without_batch(input, "SqueezeBackward1",
                         [&](const Tensor& x) { return conv_transpose2d(x, weight, bias, args); });
  }
  check_transposed(input, weight, bias, args);
  const auto along = [&](std::size_t d) {
    return (input.sizes()[d + 2] - 1) * args.stride[d] - 2 * args.padding[d] +
           args.dilation[d] * (weight.sizes()[d + 2] - 1) + args.output_padding[d] + 1;
  };
  DL_CHECK(along(0) > 0 && along(1) > 0, kShape,
           "conv_transpose2d: the result would have {} x {} places; the input is {}, padding "
           "({}, {})",
           along(0), along(1), input.sizes().str(), args.padding[0], args.padding[1]);
  if (args.output_padding[0] >= args.stride[0] || args.output_padding[1] >= args.stride[1]) {
    return cut_from_whole(input, weight, bias, args);
  }
  const Conv2dArgs of_convolution{.stride = args.stride,
                                  .padding = args.padding,
                                  .dilation = args.dilation,
                                  .groups = args.groups};
  const Tensor x = laid_out(input, kFiltered);
  const Tensor w = laid_out(weight);
  const bool last_in_torch = torch_format(input) == kFiltered || torch_format(weight) == kFiltered;
  const MemoryFormat in_torch = last_in_torch ? kFiltered : MemoryFormat::kContiguous;
  const Tensor memory = empty({input.size(0), weight.size(1) * args.groups, along(0), along(1)},
                              kFiltered, {.dtype = input.dtype(), .device = input.device()});
  call<Op::kConv2dBackwardData>(input.device(), x, w, of_convolution, memory);
  Tensor output = with_visible_format(memory, in_torch);
  if (auto* node = record<ConvTranspose2dBackward>(output, input, weight)) {
    node->args = of_convolution;
    node->in_torch = in_torch;
    node->save_input(0, x);
    node->save_input(1, w);
  }
  return bias.defined() ? add(output, bias.view({1, bias.size(0), 1, 1})) : output;
}

}  // namespace dl
