#include "core/ops/pool/resample.h"

#include <algorithm>
#include <cmath>

#include "core/args/axis_taps.h"
#include "core/ops/common.h"
#include "core/ops/conv/unbatched.h"
#include "core/ops/layout.h"

namespace dl {
namespace {

constexpr auto kImagesLast = MemoryFormat::kChannelsLast;

Tensor run_taps(const Tensor& input, const Taps2d& taps, const char* grad_fn);

struct TapsBackward final : Node {
  std::string_view name() const noexcept override { return gradient.op; }
  void backward_recorded(BackwardContext& context) override {
    context.give(0, run_taps(context.grad_output(), gradient, nullptr));
  }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output(), kImagesLast);
    const Tensor d =
        empty(input_shape, kImagesLast, {.dtype = grad.dtype(), .device = grad.device()});
    call<Op::kTaps2d>(grad.device(), gradient, grad, d);
    context.give(0, with_visible_format(d, in_torch));
  }
  Shape input_shape;
  MemoryFormat in_torch = kImagesLast;  // of the result and of the input's gradient
  Taps2d gradient;
};

void check_images(const Tensor& input, std::string_view op,
                  std::string_view wanted = "[N, C, H, W] or [C, H, W]") {
  check_defined(input, op, "the input");
  DL_CHECK(input.dim() == 4, kShape, "{}: the input has shape {}, wanted {}", op,
           input.sizes().str(), wanted);
  check_floating(input, op);
}

Tensor run_taps(const Tensor& input, const Taps2d& taps, const char* grad_fn) {
  const Tensor x = laid_out(input, kImagesLast);
  const Tensor memory = empty({x.size(0), x.size(1), taps.rows.outputs(), taps.columns.outputs()},
                              kImagesLast, {.dtype = x.dtype(), .device = x.device()});
  call<Op::kTaps2d>(x.device(), taps, x, memory);
  const MemoryFormat in_torch = torch_format(input);
  Tensor y = with_visible_format(memory, in_torch);
  if (auto* node = record<TapsBackward>(y, input)) {
    node->set_grad_fn_name(grad_fn);
    node->in_torch = in_torch;
    node->input_shape = x.sizes();
    node->gradient = {taps.op, taps.rows.transposed(), taps.columns.transposed()};
  }
  return y;
}

// The windows of one axis; each weight is 1 / (this axis's factor of the divisor).
AxisTaps averages(std::int64_t size, std::size_t d, const AvgPool2dArgs& args) {
  AxisTaps taps;
  taps.inputs = size;
  const std::int64_t count =
      window_count(size, args.kernel[d], args.stride[d], args.padding[d], 1, args.ceil_mode);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = i * args.stride[d] - args.padding[d];
    const std::int64_t padded_end = std::min(start + args.kernel[d], size + args.padding[d]);
    const std::int64_t first = std::max<std::int64_t>(0, start);
    const std::int64_t end = std::min(padded_end, size);
    const std::int64_t length = args.count_include_pad ? padded_end - start : end - first;
    const double weight = args.divisor_override ? 1 : 1 / static_cast<double>(length);
    for (std::int64_t k = first; k < end; ++k) taps.add(k, weight);
    taps.end();
  }
  return taps;
}

AxisTaps adaptive_averages(std::int64_t inputs, std::int64_t outputs) {
  AxisTaps taps;
  taps.inputs = inputs;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t first = i * inputs / outputs;
    const std::int64_t end = ((i + 1) * inputs + outputs - 1) / outputs;
    for (std::int64_t k = first; k < end; ++k) taps.add(k, 1 / static_cast<double>(end - first));
    taps.end();
  }
  return taps;
}

// The input index of output i. A factor of 0: use the ratio of the sizes. Computed in float32 for
// every image dtype, as in PyTorch.
AxisTaps nearest(std::int64_t inputs, std::int64_t outputs, double factor) {
  AxisTaps taps;
  taps.inputs = inputs;
  const float scale = factor > 0 ? static_cast<float>(1.0 / factor)
                                 : static_cast<float>(inputs) / static_cast<float>(outputs);
  for (std::int64_t i = 0; i < outputs; ++i) {
    const auto from = static_cast<std::int64_t>(std::floor(static_cast<float>(i) * scale));
    taps.add(std::min(from, inputs - 1), 1);
    taps.end();
  }
  return taps;
}

AxisTaps linear_taps(std::int64_t inputs, std::int64_t outputs, double factor, bool align_corners) {
  AxisTaps taps;
  taps.inputs = inputs;
  const auto in = static_cast<double>(inputs);
  const auto out = static_cast<double>(outputs);
  const double scale = align_corners ? (outputs > 1 ? (in - 1) / (out - 1) : 0)
                       : factor > 0  ? 1 / factor
                                     : in / out;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const auto at = static_cast<double>(i);
    // PyTorch copies an axis of the same size, whatever the factor is.
    const double from = inputs == outputs ? at
                        : align_corners   ? at * scale
                                          : std::max(0.0, scale * (at + 0.5) - 0.5);
    const std::int64_t low = std::min(static_cast<std::int64_t>(from), inputs - 1);
    const double share = std::min(1.0, from - static_cast<double>(low));
    // Also with a weight of 0, because PyTorch's formula then gives NaN for an element that is not
    // finite.
    taps.add(low, 1 - share);
    taps.add(inputs == outputs ? low : std::min(low + 1, inputs - 1), share);
    taps.end();
  }
  return taps;
}

}  // namespace

Tensor avg_pool2d(const Tensor& input, const AvgPool2dArgs& args) {
  if (is_unbatched(input, 4)) [[unlikely]] {
    return without_batch(input, "AvgPool2DBackward0",
                         [&](const Tensor& x) { return avg_pool2d(x, args); });
  }
  check_images(input, "avg_pool2d");
  for (const std::size_t d : {0u, 1u}) {
    DL_CHECK(args.kernel[d] > 0 && args.stride[d] > 0, kInvalidArgument,
             "avg_pool2d: kernel_size is ({}, {}) and stride ({}, {}), wanted at least 1",
             args.kernel[0], args.kernel[1], args.stride[0], args.stride[1]);
    DL_CHECK(args.padding[d] >= 0 && 2 * args.padding[d] <= args.kernel[d], kInvalidArgument,
             "avg_pool2d: padding is ({}, {}), wanted at most half of the kernel_size ({}, {})",
             args.padding[0], args.padding[1], args.kernel[0], args.kernel[1]);
  }
  DL_CHECK(!args.divisor_override || *args.divisor_override != 0, kInvalidArgument,
           "avg_pool2d: divisor_override is 0");
  Taps2d taps{"avg_pool2d", averages(input.size(2), 0, args), averages(input.size(3), 1, args)};
  DL_CHECK(taps.rows.outputs() > 0 && taps.columns.outputs() > 0, kShape,
           "avg_pool2d: a window of {} x {} does not fit into the input {} with padding ({}, {})",
           args.kernel[0], args.kernel[1], input.sizes().str(), args.padding[0], args.padding[1]);
  if (args.divisor_override) {
    for (double& weight : taps.rows.weight) weight /= static_cast<double>(*args.divisor_override);
  }
  return run_taps(input, taps, "AvgPool2DBackward0");
}

Tensor adaptive_avg_pool2d(const Tensor& input, const IntPair& size) {
  if (is_unbatched(input, 4)) [[unlikely]] {
    return without_batch(input, size.is(1) ? "MeanBackward1" : "AdaptiveAvgPool2DBackward0",
                         [&](const Tensor& x) { return adaptive_avg_pool2d(x, size); });
  }
  check_images(input, "adaptive_avg_pool2d");
  DL_CHECK(size[0] >= 0 && size[1] >= 0, kInvalidArgument,
           "adaptive_avg_pool2d: output_size is ({}, {}), wanted at least 1, or 0 for the input's",
           size[0], size[1]);
  DL_CHECK(input.size(2) > 0 && input.size(3) > 0, kShape,
           "adaptive_avg_pool2d: the input has shape {}, wanted images that are not empty",
           input.sizes().str());
  const auto along = [&](std::size_t d) {
    const std::int64_t inputs = input.sizes()[d + 2];
    return adaptive_averages(inputs, size[d] == 0 ? inputs : size[d]);
  };
  return run_taps(input, {"adaptive_avg_pool2d", along(0), along(1)},
                  size.is(1) ? "MeanBackward1" : "AdaptiveAvgPool2DBackward0");
}

Tensor upsample2d(const Tensor& input, const UpsampleArgs& args) {
  check_images(input, "upsample", "[N, C, H, W]");
  DL_CHECK(args.size[0] > 0 && args.size[1] > 0, kInvalidArgument,
           "upsample: the size is ({}, {}), wanted at least 1", args.size[0], args.size[1]);
  DL_CHECK(input.size(2) > 0 && input.size(3) > 0, kShape,
           "upsample: the input has shape {}, wanted images that are not empty",
           input.sizes().str());
  const auto along = [&](std::size_t d) {
    const std::int64_t inputs = input.sizes()[d + 2];
    const double factor = args.factors[d];
    return args.mode == UpsampleMode::kNearest
               ? nearest(inputs, args.size[d], factor)
               : linear_taps(inputs, args.size[d], factor, args.align_corners);
  };
  return run_taps(input, {"upsample", along(0), along(1)},
                  args.mode == UpsampleMode::kNearest ? "UpsampleNearest2DBackward0"
                                                      : "UpsampleBilinear2DBackward0");
}

}  // namespace dl
