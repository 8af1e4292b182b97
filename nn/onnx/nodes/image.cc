// Convolution, pooling and resampling of images [N, C, H, W].
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/args/axis_taps.h"
#include "core/args/window_args.h"
#include "core/tensor/factories.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers both(const IntPair& pair) {
  return {pair.h, pair.w};
}

// The windows of average pooling along one axis.
struct Windows {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  bool counts_padding = false;  // in the divisor
};

struct TapList {
  explicit TapList(const AxisTaps& taps) : taps_(taps) {}

  std::int64_t count(std::size_t i) const { return taps_.first[i + 1] - taps_.first[i]; }
  std::int64_t index(std::size_t i, std::int64_t k) const { return taps_.index[at(i, k)]; }
  double weight(std::size_t i, std::int64_t k) const { return taps_.weight[at(i, k)]; }
  std::size_t outputs() const { return static_cast<std::size_t>(taps_.outputs()); }
  // The taps of output i are neighbours of one weight.
  bool is_window(std::size_t i) const {
    for (std::int64_t k = 0; k < count(i); ++k) {
      if (index(i, k) != index(i, 0) + k || weight(i, k) != weight(i, 0)) return false;
    }
    return count(i) > 0;
  }

 private:
  std::size_t at(std::size_t i, std::int64_t k) const {
    return static_cast<std::size_t>(taps_.first[i] + k);
  }
  const AxisTaps& taps_;
};

// The windows that give these taps, if there are any.
std::optional<Windows> windows_of(const AxisTaps& axis) {
  const TapList taps(axis);
  const std::size_t n = taps.outputs();
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!taps.is_window(i)) return std::nullopt;
    longest = std::max(longest, taps.count(i));
  }
  const auto is_near = [](double a, double b) { return std::abs(a - b) < 1e-9; };
  Windows windows{.kernel = longest};
  // Windows of padding are shorter; the first one ends as an unpadded one would.
  windows.before = longest - taps.count(0);
  const auto start = [&](std::size_t i) { return i == 0 ? -windows.before : taps.index(i, 0); };
  // A single window must not be followed by another one.
  windows.stride = n > 1 ? start(1) - start(0) : std::max<std::int64_t>(1, axis.inputs);
  if (windows.stride < 1) return std::nullopt;
  const auto steps = static_cast<std::int64_t>(n) - 1;
  windows.after =
      std::max<std::int64_t>(0, steps * windows.stride - windows.before + longest - axis.inputs);
  if (windows.before >= longest || windows.after >= longest) return std::nullopt;
  const std::int64_t room = axis.inputs + windows.before + windows.after - longest;
  if (room / windows.stride != steps) return std::nullopt;
  bool all_by_length = true;
  bool all_by_kernel = true;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * windows.stride - windows.before;
    const std::int64_t low = std::max<std::int64_t>(0, first);
    const std::int64_t high = std::min(axis.inputs, first + longest);
    if (taps.index(i, 0) != low || taps.count(i) != high - low) return std::nullopt;
    const double weight = taps.weight(i, 0);
    all_by_length &= is_near(weight * static_cast<double>(taps.count(i)), 1);
    all_by_kernel &= is_near(weight * static_cast<double>(longest), 1);
  }
  if (!all_by_length && !all_by_kernel) return std::nullopt;
  windows.counts_padding = !all_by_length;
  return windows;
}

// The outputs repeat each input so many times, as the nearest ones of a larger image do.
std::optional<std::int64_t> repeats_of(const AxisTaps& axis) {
  const TapList taps(axis);
  if (axis.inputs == 0 || axis.outputs() % axis.inputs != 0) return std::nullopt;
  const std::int64_t times = axis.outputs() / axis.inputs;
  for (std::size_t i = 0; i < taps.outputs(); ++i) {
    const bool is_one = taps.count(i) == 1 && taps.weight(i, 0) == 1;
    if (!is_one || taps.index(i, 0) != static_cast<std::int64_t>(i) / times) return std::nullopt;
  }
  return times;
}

// The taps as a matrix [outputs, inputs].
Value matrix_of(Builder& b, const AxisTaps& axis, DType dtype) {
  const Tensor matrix = zeros({axis.outputs(), axis.inputs}, {.dtype = DType::kF64});
  const TapList taps(axis);
  auto* row = matrix.data<double>();
  for (std::size_t i = 0; i < taps.outputs(); ++i, row += axis.inputs) {
    for (std::int64_t k = 0; k < taps.count(i); ++k) row[taps.index(i, k)] += taps.weight(i, k);
  }
  return b.constant(matrix.to(dtype));
}

}  // namespace

void write_conv2d(Translation& step) {
  constexpr std::size_t kOut = 3;
  Builder& b = step.builder;
  const auto& args = step.argument<Conv2dArgs>();
  const Shape& weight = step.operand(1).sizes;
  const Value x = step.in(0);
  const std::string bias = step.has(2) ? step.in(2).name : "";
  Value y =
      b.add("Conv", {x.name, step.in(1).name, bias}, step.operand(kOut).sizes, x.dtype,
            {{"kernel_shape", Numbers{weight[2], weight[3]}},
             {"strides", both(args.stride)},
             {"pads", Numbers{args.padding.h, args.padding.w, args.padding.h, args.padding.w}},
             {"dilations", both(args.dilation)},
             {"group", args.groups}});
  if (args.relu) y = b.unary("Relu", y);
  step.out(kOut, y);
}

// The kernel of a convolution's gradient is that of a transposed convolution.
void write_conv_transpose2d(Translation& step) {
  Builder& b = step.builder;
  const auto& args = step.argument<Conv2dArgs>();
  const Shape& weight = step.operand(1).sizes;
  const Shape& out = step.operand(2).sizes;
  const Value x = step.in(0);
  Numbers beyond;
  for (const std::size_t d : {0u, 1u}) {
    const std::int64_t reached = (x.sizes[d + 2] - 1) * args.stride[d] - 2 * args.padding[d] +
                                 args.dilation[d] * (weight[d + 2] - 1) + 1;
    beyond.push_back(out[d + 2] - reached);
  }
  step.out(2,
           b.add("ConvTranspose", {x.name, step.in(1).name}, out, x.dtype,
                 {{"kernel_shape", Numbers{weight[2], weight[3]}},
                  {"strides", both(args.stride)},
                  {"pads", Numbers{args.padding.h, args.padding.w, args.padding.h, args.padding.w}},
                  {"dilations", both(args.dilation)},
                  {"output_padding", beyond},
                  {"group", args.groups}}));
}

void write_max_pool2d(Translation& step) {
  Builder& b = step.builder;
  const auto& args = step.argument<MaxPool2dArgs>();
  Value x = step.in(0);
  const Shape& out = step.operand(1).sizes;
  // Padding that gives this size; ceil_mode means something else in some versions of ONNX.
  Numbers after;
  for (const std::size_t d : {0u, 1u}) {
    const std::int64_t reached =
        (out[d + 2] - 1) * args.stride[d] + args.dilation[d] * (args.kernel[d] - 1) + 1;
    after.push_back(std::max<std::int64_t>(0, reached - x.sizes[d + 2] - args.padding[d]));
  }
  if (args.relu) x = b.unary("Relu", x);
  step.out(1, b.add("MaxPool", {x.name}, out, x.dtype,
                    {{"kernel_shape", both(args.kernel)},
                     {"strides", both(args.stride)},
                     {"pads", Numbers{args.padding.h, args.padding.w, after[0], after[1]}},
                     {"dilations", both(args.dilation)}}));
}

void write_taps2d(Translation& step) {
  Builder& b = step.builder;
  const auto& [op, rows, columns] = step.argument<Taps2d>();
  const Value x = step.in(0);
  const Shape& out = step.operand(1).sizes;
  const std::optional<Windows> h = windows_of(rows);
  const std::optional<Windows> w = windows_of(columns);
  if (h && w && h->kernel == x.sizes[2] && w->kernel == x.sizes[3] && out[2] == 1 && out[3] == 1) {
    return step.out(1, b.add("GlobalAveragePool", {x.name}, out, x.dtype));
  }
  const auto is_padded = [](const Windows& each) { return each.before > 0 || each.after > 0; };
  const bool one_rule =
      h && w && (!is_padded(*h) || !is_padded(*w) || h->counts_padding == w->counts_padding);
  if (one_rule && (h->kernel > 1 || w->kernel > 1)) {
    const std::int64_t counts = h->counts_padding || w->counts_padding ? 1 : 0;
    return step.out(1, b.add("AveragePool", {x.name}, out, x.dtype,
                             {{"kernel_shape", Numbers{h->kernel, w->kernel}},
                              {"strides", Numbers{h->stride, w->stride}},
                              {"pads", Numbers{h->before, w->before, h->after, w->after}},
                              {"count_include_pad", counts}}));
  }
  const std::optional<std::int64_t> down = repeats_of(rows);
  const std::optional<std::int64_t> right = repeats_of(columns);
  if (down && right) {
    const float factors[] = {1, 1, static_cast<float>(*down), static_cast<float>(*right)};
    const Tensor scales = empty(Shape{4}, {.dtype = DType::kF32});
    std::ranges::copy(factors, scales.data<float>());
    return step.out(1, b.add("Resize", {x.name, "", b.constant(scales).name}, out, x.dtype,
                             {{"coordinate_transformation_mode", std::string("asymmetric")},
                              {"mode", std::string("nearest")},
                              {"nearest_mode", std::string("floor")}}));
  }
  // Any other weights, as those of bilinear interpolation: a product with a matrix for each axis.
  Shape tall = x.sizes;
  tall[2] = out[2];
  const Value by_rows = b.add("MatMul", {matrix_of(b, rows, x.dtype).name, x.name}, tall, x.dtype);
  const Value to_columns = b.transpose(matrix_of(b, columns, x.dtype), {1, 0});
  step.out(1, b.add("MatMul", {by_rows.name, to_columns.name}, out, x.dtype));
}

}  // namespace dl::onnx
