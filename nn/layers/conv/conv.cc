#include "nn/layers/conv/conv.h"

#include <fmt/format.h>

#include "core/ops/conv/conv.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/layers/check_input.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

Tensor empty_weight(std::int64_t in, std::int64_t out, IntPair kernel,
                    const Conv2dOptions& options) {
  DL_CHECK(options.groups > 0, kInvalidArgument, "Conv2d: groups is {}, wanted at least 1",
           options.groups);
  DL_CHECK(in > 0 && in % options.groups == 0, kInvalidArgument,
           "Conv2d: in_channels is {}, wanted a positive multiple of groups = {}", in,
           options.groups);
  DL_CHECK(out > 0 && out % options.groups == 0, kInvalidArgument,
           "Conv2d: out_channels is {}, wanted a positive multiple of groups = {}", out,
           options.groups);
  DL_CHECK(kernel.h > 0 && kernel.w > 0, kInvalidArgument,
           "Conv2d: kernel_size is {}, wanted at least 1", kernel.as_given());
  DL_CHECK(options.stride.h > 0 && options.stride.w > 0, kInvalidArgument,
           "Conv2d: stride is {}, wanted at least 1", options.stride.as_given());
  DL_CHECK(options.padding.h >= 0 && options.padding.w >= 0, kInvalidArgument,
           "Conv2d: padding is {}, wanted at least 0", options.padding.as_given());
  DL_CHECK(options.dilation.h > 0 && options.dilation.w > 0, kInvalidArgument,
           "Conv2d: dilation is {}, wanted at least 1", options.dilation.as_given());
  options.padding.sides(kernel, options.stride, options.dilation, "Conv2d");
  return empty({out, in / options.groups, kernel.h, kernel.w}, {.dtype = options.dtype});
}

bool is_relu_alone(const Fusion& fusion) {
  return fusion.is_relu_after() && !fusion.residual.defined();
}

Tensor convolve(const Conv2d& layer, const Tensor& input, bool relu) {
  if (input.defined() && input.dim() <= 4) {
    check_size("Conv2d", "in_channels", layer.in_channels, input, -3, "channels");
  }
  const Conv2dOptions& options = layer.options;
  const ConvPadding::Sides padding =
      options.padding.sides(layer.kernel_size, options.stride, options.dilation, "Conv2d");
  const IntPair more = padding.more_at_end;
  const Tensor padded = more.is(0) ? input : pad(input, {0, more.w, 0, more.h});
  return dl::conv2d(padded, layer.weight, layer.bias,
                    {.stride = layer.options.stride,
                     .padding = padding.both,
                     .dilation = layer.options.dilation,
                     .groups = layer.options.groups,
                     .relu = relu});
}

}  // namespace

ConvPadding::ConvPadding(std::string_view name) : IntPair(0) {
  DL_CHECK(name == "same" || name == "valid", kInvalidArgument,
           "padding is \"{}\", wanted numbers, \"same\" or \"valid\"", name);
  word = name == "same" ? "same" : "valid";
}

ConvPadding::Sides ConvPadding::sides(IntPair kernel, IntPair stride, IntPair dilation,
                                      std::string_view layer) const {
  if (word != "same") return {.both = static_cast<const IntPair&>(*this)};
  DL_CHECK(stride.is(1), kInvalidArgument,
           "{}: padding \"same\" is for stride 1, the stride is {}; give numbers instead", layer,
           stride.as_given());
  Sides sides;
  for (const std::size_t d : {0, 1}) {
    const std::int64_t all = dilation[d] * (kernel[d] - 1);
    sides.both[d] = all / 2;
    sides.more_at_end[d] = all % 2;
  }
  return sides;
}

std::string ConvPadding::repr() const {
  return word.empty() ? tuple() : std::string(word);
}

Conv2d::Conv2d(std::int64_t in, std::int64_t out, IntPair kernel, Conv2dOptions given)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(given),
      weight(register_parameter("weight", empty_weight(in, out, kernel, given))),
      bias(register_parameter("bias",
                              given.bias ? empty({out}, {.dtype = given.dtype}) : Tensor())) {
  reset_parameters();
}

void Conv2d::reset_parameters() {
  check_not_moved("reset_parameters");
  init::reset_weight_and_bias(weight, bias);
}

Tensor Conv2d::forward(const Tensor& input) {
  check_not_moved("a call");
  return convolve(*this, input, false);
}

bool Conv2d::can_fuse(const Fusion& fusion) const {
  return is_exactly<Conv2d>() && is_relu_alone(fusion);
}

Tensor Conv2d::forward_fused(const Tensor& input, const Fusion& fusion) {
  check_not_moved("a call");
  if (!is_relu_alone(fusion)) return Module::forward_fused(input, fusion);
  return convolve(*this, input, true);
}

std::string Conv2d::extra_repr() const {
  check_not_moved("extra_repr");
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in_channels, out_channels,
                                 kernel_size.tuple(), options.stride.tuple());
  if (!options.padding.is_none()) text += ", padding=" + options.padding.repr();
  if (!options.dilation.is(1)) text += ", dilation=" + options.dilation.tuple();
  if (options.groups != 1) text += fmt::format(", groups={}", options.groups);
  if (!bias.defined()) text += ", bias=False";
  return text;
}

}  // namespace dl::nn
