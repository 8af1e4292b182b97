#include "core/ops/conv/conv.h"

#include <fmt/format.h>

#include <limits>

#include "core/ops/common.h"
#include "core/ops/conv/conv_gradient.h"
#include "core/ops/conv/unbatched.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/layout.h"

namespace dl {

std::string IntPair::tuple() const {
  return fmt::format("({}, {})", h, w);
}

std::string IntPair::as_given() const {
  return one_number ? fmt::format("{}", h) : tuple();
}

namespace {

constexpr auto kLast = MemoryFormat::kChannelsLast;

// Above this, products of two would overflow.
constexpr std::int64_t kMostOfPair = std::numeric_limits<std::int32_t>::max();

void check_pair(const IntPair& pair, std::int64_t least, std::string_view op,
                std::string_view what) {
  DL_CHECK(pair[0] >= least && pair[1] >= least, kInvalidArgument,
           "{}: {} is ({}, {}), wanted at least {}", op, what, pair[0], pair[1], least);
  DL_CHECK(pair[0] <= kMostOfPair && pair[1] <= kMostOfPair, kInvalidArgument,
           "{}: {} is ({}, {}), wanted at most {}", op, what, pair[0], pair[1], kMostOfPair);
}

void check_image(const Tensor& input, std::string_view op) {
  check_defined(input, op, "the input");
  DL_CHECK(input.dim() == 4, kShape, "{}: the input has shape {}, wanted [N, C, H, W] or [C, H, W]",
           op, input.sizes().str());
  check_floating(input, op);
}

void check_same_kind(const Tensor& input, const Tensor& other, std::string_view op,
                     std::string_view what) {
  DL_CHECK(other.dtype() == input.dtype(), kDType, "{}: the input is {}, but the {} is {}", op,
           name_of(input.dtype()), what, name_of(other.dtype()));
  check_same_device(input, other, op);
}

void check_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  const Conv2dArgs& args) {
  check_image(input, "conv2d");
  check_defined(weight, "conv2d", "the weight");
  DL_CHECK(weight.dim() == 4, kShape,
           "conv2d: the weight has shape {}, wanted [O, C / groups, kh, kw]", weight.sizes().str());
  check_same_kind(input, weight, "conv2d", "weight");
  check_pair(args.stride, 1, "conv2d", "stride");
  check_pair(args.padding, 0, "conv2d", "padding");
  check_pair(args.dilation, 1, "conv2d", "dilation");
  DL_CHECK(weight.numel() > 0, kShape, "conv2d: the weight has shape {}, wanted no empty dimension",
           weight.sizes().str());
  DL_CHECK(args.groups >= 1, kInvalidArgument, "conv2d: groups is {}, wanted at least 1",
           args.groups);
  DL_CHECK(weight.size(0) % args.groups == 0, kShape,
           "conv2d: the weight has {} output channels, wanted a multiple of groups = {}",
           weight.size(0), args.groups);
  DL_CHECK(input.size(1) == weight.size(1) * args.groups, kShape,
           "conv2d: the input {} has {} channels, but the weight {} with groups = {} wants {}",
           input.sizes().str(), input.size(1), weight.sizes().str(), args.groups,
           weight.size(1) * args.groups);
  if (!bias.defined()) return;
  check_same_kind(input, bias, "conv2d", "bias");
  DL_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0), kShape,
           "conv2d: the bias has shape {}, wanted [{}]", bias.sizes().str(), weight.size(0));
}

template <typename Args>
IntPair output_size(const Tensor& input, const IntPair& kernel, const Args& args,
                    bool ceil_mode = false) {
  const auto along = [&](std::size_t d) {
    return window_count(input.sizes()[d + 2], kernel[d], args.stride[d], args.padding[d],
                        args.dilation[d], ceil_mode);
  };
  return {along(0), along(1)};
}

// The gradient before the fused ReLU.
Tensor unclipped(BackwardContext& context, const Tensor& output) {
  Tensor grad = laid_out(context.grad_output(), kLast);
  const Tensor result =
      empty(output.sizes(), kLast, {.dtype = output.dtype(), .device = output.device()});
  call<Op::kUnaryBackward>(grad.device(), UnaryFn::kRelu, grad, output, Parameters{}, result);
  return result;
}

// Inputs: input, weight, bias. Saved: input (channels-last), weight, and with ReLU the output.
struct Conv2dBackward final : Node {
  std::string_view name() const noexcept override { return "conv2d"; }

  void backward(BackwardContext& context) override {
    const Tensor grad =
        args.relu ? unclipped(context, saved(2)) : laid_out(context.grad_output(), kLast);
    const Tensor& input = saved(0);
    const Tensor& weight = saved(1);
    // Compute the leaves first: a gradient that is final early is all-reduced early.
    if (context.needs(1) || context.needs(2)) weight_gradients(context, grad, input, weight);
    if (context.needs(0)) {
      const Tensor dinput = empty_like(input);
      call<Op::kConv2dBackwardData>(grad.device(), grad, weight, args, dinput);
      context.give(0, with_visible_format(dinput, in_torch));
    }
  }

  void backward_recorded(BackwardContext& context) override {
    const Tensor& output = context.grad_output();
    const Tensor grad = args.relu ? unary_gradient(UnaryFn::kRelu, output, saved(2), {}) : output;
    const Tensor& input = saved(0);
    const Tensor& weight = saved(1);
    if (context.needs(1)) {
      context.give(1, conv2d_weight_gradient(input, grad, args, weight.sizes()));
    }
    if (context.needs(2)) context.give(2, grad.sum({0, 2, 3}));
    if (context.needs(0)) {
      context.give(0, conv2d_input_gradient(grad, weight, args, input.sizes()));
    }
  }

  void weight_gradients(BackwardContext& context, const Tensor& grad, const Tensor& input,
                        const Tensor& weight) const {
    // Compute in the leaf's memory if it can be overwritten.
    const GradTarget target = context.needs(1) ? context.target(1) : GradTarget{};
    const bool direct =
        target.memory.defined() && !target.accumulate && target.memory.is_contiguous();
    const Tensor dweight =
        direct ? target.memory
               : empty(weight.sizes(), {.dtype = weight.dtype(), .device = weight.device()});
    const Tensor dbias =
        context.needs(2)
            ? empty({weight.size(0)}, {.dtype = weight.dtype(), .device = weight.device()})
            : Tensor();
    call<Op::kConv2dBackwardWeight>(grad.device(), input, grad, args, dweight, dbias);
    if (direct) {
      context.gave_in_target(1);
    } else if (context.needs(1)) {
      context.give(1, dweight);
    }
    if (context.needs(2)) context.give(2, dbias);
  }

  Conv2dArgs args;
  MemoryFormat in_torch = kLast;  // of the result and of the input's gradient
};

// Input: input. Saved: winner.
struct MaxPool2dBackward final : Node {
  std::string_view name() const noexcept override { return "max_pool2d"; }

  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output(), kLast);
    const Tensor dinput =
        empty(input_shape, kLast, {.dtype = grad.dtype(), .device = grad.device()});
    call<Op::kMaxPool2dBackward>(grad.device(), grad, saved(0), args, dinput);
    context.give(0, with_visible_format(dinput, in_torch));
  }

  void backward_recorded(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    constexpr std::int64_t kNoWinner = 0xffff;  // as the kernels mark a window
    const Tensor winner = saved(0).to(DType::kI64);
    const Tensor wins = ne(winner, kNoWinner);
    const Tensor ky = floor_divide(winner, args.kernel[1]);
    const Tensor kx = winner - ky * args.kernel[1];
    const auto along = [&](std::size_t d, const Tensor& in_window) {
      const Tensor windows = arange(grad.sizes()[d + 2], {.device = grad.device()});
      const Tensor starts = windows * args.stride[d] - args.padding[d];
      return in_window * args.dilation[d] + (d == 0 ? starts.unsqueeze(1) : starts);
    };
    const Tensor place = along(0, ky) * input_shape[3] + along(1, kx);
    const Shape images{input_shape[0], input_shape[1], input_shape[2] * input_shape[3]};
    const Tensor dinput =
        zeros(images, {.dtype = grad.dtype(), .device = grad.device()})
            .scatter_add(2, where(wins, place, 0).flatten(2), masked(grad, wins).flatten(2));
    context.give(0, dinput.view(input_shape));
  }

  MaxPool2dArgs args;
  MemoryFormat in_torch = kLast;  // of the result and of the input's gradient
  Shape input_shape;
};

// The format of PyTorch's result. PyTorch converts image and weight to channels-last if one of them
// suggests it, and the result is channels-last if one of the converted tensors suggests it. [N, 1,
// 1, 1] does not, because a tensor that is in both formats keeps its strides.
MemoryFormat convolved_format(const Tensor& input, const Tensor& weight) {
  const auto suggests_last = [](const Tensor& each) {
    const Shape& shape = each.sizes();
    const Strides& strides = each.strides();
    const bool there = is_channels_last(shape, strides);
    return suggested_format(shape, there ? strides : channels_last_strides(shape)) == kLast;
  };
  const bool asked = torch_format(input) == kLast || torch_format(weight) == kLast;
  return asked && (suggests_last(input) || suggests_last(weight)) ? kLast
                                                                  : MemoryFormat::kContiguous;
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Conv2dArgs& args) {
  if (const auto cast = autocast_of<Op::kConv2d>(input)) {
    return conv2d(cast(input), cast(weight), cast(bias), args);
  }
  if (is_unbatched(input, 4)) [[unlikely]] {
    return without_batch(input, args.relu ? "ReluBackward0" : "SqueezeBackward1",
                         [&](const Tensor& x) { return conv2d(x, weight, bias, args); });
  }
  check_conv2d(input, weight, bias, args);
  const IntPair size = output_size(input, {weight.size(2), weight.size(3)}, args);
  DL_CHECK(size[0] > 0 && size[1] > 0, kShape,
           "conv2d: a window of {} x {} with dilation ({}, {}) does not fit into the input {} with "
           "padding ({}, {})",
           weight.size(2), weight.size(3), args.dilation[0], args.dilation[1], input.sizes().str(),
           args.padding[0], args.padding[1]);
  const Tensor x = laid_out(input, kLast);
  const Tensor w = laid_out(weight);
  const Tensor memory = empty({input.size(0), weight.size(0), size[0], size[1]}, kLast,
                              {.dtype = input.dtype(), .device = input.device()});
  call<Op::kConv2d>(input.device(), x, w, laid_out_or_none(bias), args, memory);
  const MemoryFormat in_torch = convolved_format(input, weight);
  Tensor output = with_visible_format(memory, in_torch);
  if (auto* node = record<Conv2dBackward>(output, input, weight, bias)) {
    node->set_grad_fn_name(args.relu ? "ReluBackward0" : "ConvolutionBackward0");
    node->args = args;
    node->in_torch = in_torch;
    node->save_input(0, x);
    node->save_input(1, w);
    if (args.relu) node->save_output(output);
  }
  return output;
}

Tensor max_pool2d(const Tensor& input, const MaxPool2dArgs& args) {
  if (is_unbatched(input, 4)) [[unlikely]] {
    return without_batch(input, "MaxPool2DWithIndicesBackward0",
                         [&](const Tensor& x) { return max_pool2d(x, args); });
  }
  check_image(input, "max_pool2d");
  check_pair(args.kernel, 1, "max_pool2d", "kernel_size");
  check_pair(args.stride, 1, "max_pool2d", "stride");
  check_pair(args.padding, 0, "max_pool2d", "padding");
  check_pair(args.dilation, 1, "max_pool2d", "dilation");
  DL_CHECK(2 * args.padding[0] <= args.kernel[0] && 2 * args.padding[1] <= args.kernel[1],
           kInvalidArgument,
           "max_pool2d: padding is ({}, {}), wanted at most half of the kernel_size ({}, {})",
           args.padding[0], args.padding[1], args.kernel[0], args.kernel[1]);
  DL_CHECK(args.kernel[0] * args.kernel[1] <= 65535, kInvalidArgument,
           "max_pool2d: a window of {} x {}, wanted at most 65535 elements", args.kernel[0],
           args.kernel[1]);
  const IntPair size = output_size(input, args.kernel, args, args.ceil_mode);
  DL_CHECK(
      size[0] > 0 && size[1] > 0, kShape,
      "max_pool2d: a window of {} x {} with dilation ({}, {}) does not fit into the input {} with "
      "padding ({}, {})",
      args.kernel[0], args.kernel[1], args.dilation[0], args.dilation[1], input.sizes().str(),
      args.padding[0], args.padding[1]);
  const Tensor x = laid_out(input, kLast);
  const Shape shape{input.size(0), input.size(1), size[0], size[1]};
  const Tensor memory = empty(shape, kLast, {.dtype = input.dtype(), .device = input.device()});
  const Tensor winner = empty(shape, kLast, {.dtype = DType::kU16, .device = input.device()});
  call<Op::kMaxPool2d>(input.device(), x, args, memory, winner);
  const MemoryFormat in_torch = torch_format(input);
  Tensor output = with_visible_format(memory, in_torch);
  if (auto* node = record<MaxPool2dBackward>(output, input)) {
    node->set_grad_fn_name("MaxPool2DWithIndicesBackward0");
    node->args = args;
    node->in_torch = in_torch;
    node->input_shape = input.sizes();
    node->save(winner);
  }
  return output;
}

}  // namespace dl
