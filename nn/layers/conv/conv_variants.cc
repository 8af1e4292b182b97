#include "nn/layers/conv/conv_variants.h"

#include "core/autograd/record.h"
#include "core/ops/conv/conv.h"
#include "core/ops/conv/unbatched.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/layers/check_input.h"
#include "nn/layers/repr.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

void check_channels(std::string_view layer, std::int64_t in, std::int64_t out,
                    std::int64_t groups) {
  DL_CHECK(groups > 0 && in > 0 && out > 0 && in % groups == 0 && out % groups == 0,
           kInvalidArgument,
           "{}: in_channels is {}, out_channels {} and groups {}, wanted positive multiples of "
           "groups",
           layer, in, out, groups);
}

Tensor weight_of_conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel,
                        const Conv1dOptions& options) {
  check_channels("Conv1d", in, out, options.groups);
  const std::int64_t padding = options.padding.w;
  DL_CHECK(
      kernel > 0 && options.stride > 0 && options.dilation > 0 && padding >= 0, kInvalidArgument,
      "Conv1d: kernel_size is {}, stride {}, dilation {} and padding {}, wanted at least 1, 1, "
      "1 and 0",
      kernel, options.stride, options.dilation, padding);
  DL_CHECK(options.padding.h == padding, kInvalidArgument,
           "Conv1d: padding is {}, wanted one number", options.padding.as_given());
  options.padding.sides({1, kernel}, options.stride, {1, options.dilation}, "Conv1d");
  return empty({out, in / options.groups, kernel}, {.dtype = options.dtype});
}

Tensor weight_of_transpose(std::int64_t in, std::int64_t out, IntPair kernel,
                           const ConvTranspose2dOptions& options) {
  check_channels("ConvTranspose2d", in, out, options.groups);
  DL_CHECK(kernel.h > 0 && kernel.w > 0, kInvalidArgument,
           "ConvTranspose2d: kernel_size is {}, wanted at least 1", kernel.as_given());
  return empty({in, out / options.groups, kernel.h, kernel.w}, {.dtype = options.dtype});
}

}  // namespace

namespace functional {

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  if (is_unbatched(input, 3)) {
    return without_batch(input, "SqueezeBackward1",
                         [&](const Tensor& x) { return conv1d(x, weight, bias, options); });
  }
  DL_CHECK(input.defined() && input.dim() == 3, kShape,
           "conv1d: the input has shape {}, wanted [N, C, L] or [C, L]",
           input.defined() ? input.sizes().str() : "none");
  DL_CHECK(weight.defined() && weight.dim() == 3, kShape,
           "conv1d: the weight has shape {}, wanted [O, C / groups, k]",
           weight.defined() ? weight.sizes().str() : "none");
  const ConvPadding::Sides padding =
      options.padding.sides({1, weight.size(2)}, options.stride, {1, options.dilation}, "conv1d");
  const std::int64_t more = padding.more_at_end.w;
  const Tensor padded = more == 0 ? input : pad(input, {0, more});
  const Tensor image = dl::conv2d(padded.unsqueeze(2), weight.unsqueeze(2), bias,
                                  {.stride = {1, options.stride},
                                   .padding = {0, padding.both.w},
                                   .dilation = {1, options.dilation},
                                   .groups = options.groups});
  // PyTorch's result is row-major for every input layout.
  const Tensor rows = image.is_contiguous() ? image : image.contiguous();
  return dl::detail::finish_composed(rows.squeeze(2), input, "ConvolutionBackward0");
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return dl::conv_transpose2d(input, weight, bias,
                              {.stride = options.stride,
                               .padding = options.padding,
                               .output_padding = options.output_padding,
                               .dilation = options.dilation,
                               .groups = options.groups});
}

}  // namespace functional

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, Conv1dOptions given)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(given),
      weight(register_parameter("weight", weight_of_conv1d(in, out, kernel, given))),
      bias(register_parameter("bias",
                              given.bias ? empty({out}, {.dtype = given.dtype}) : Tensor())) {
  reset_parameters();
}

void Conv1d::reset_parameters() {
  check_not_moved("reset_parameters");
  init::reset_weight_and_bias(weight, bias);
}

Tensor Conv1d::forward(const Tensor& input) {
  check_not_moved("a call");
  if (input.defined() && input.dim() <= 3) {
    check_size("Conv1d", "in_channels", in_channels, input, -2, "channels");
  }
  return functional::conv1d(input, weight, bias, options);
}

std::string Conv1d::extra_repr() const {
  check_not_moved("extra_repr");
  std::string text = fmt::format("{}, {}, kernel_size=({},), stride=({},)", in_channels,
                                 out_channels, kernel_size, options.stride);
  if (!options.padding.word.empty()) {
    text += ", padding=" + options.padding.repr();
  } else if (!options.padding.is(0)) {
    text += fmt::format(", padding=({},)", options.padding.w);
  }
  if (options.dilation != 1) text += fmt::format(", dilation=({},)", options.dilation);
  if (options.groups != 1) text += fmt::format(", groups={}", options.groups);
  if (!bias.defined()) text += ", bias=False";
  return text;
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, IntPair kernel,
                                 ConvTranspose2dOptions given)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options(given),
      weight(register_parameter("weight", weight_of_transpose(in, out, kernel, given))),
      bias(register_parameter("bias",
                              given.bias ? empty({out}, {.dtype = given.dtype}) : Tensor())) {
  reset_parameters();
}

void ConvTranspose2d::reset_parameters() {
  check_not_moved("reset_parameters");
  init::reset_weight_and_bias(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& input) {
  check_not_moved("a call");
  if (input.defined() && input.dim() <= 4) {
    check_size("ConvTranspose2d", "in_channels", in_channels, input, -3, "channels");
  }
  return functional::conv_transpose2d(input, weight, bias, options);
}

std::string ConvTranspose2d::extra_repr() const {
  check_not_moved("extra_repr");
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in_channels, out_channels,
                                 kernel_size.tuple(), options.stride.tuple());
  if (!options.padding.is(0)) text += ", padding=" + options.padding.tuple();
  if (!options.dilation.is(1)) text += ", dilation=" + options.dilation.tuple();
  if (!options.output_padding.is(0)) text += ", output_padding=" + options.output_padding.tuple();
  if (options.groups != 1) text += fmt::format(", groups={}", options.groups);
  if (!bias.defined()) text += ", bias=False";
  return text;
}

}  // namespace dl::nn
