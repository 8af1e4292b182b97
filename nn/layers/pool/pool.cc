#include "nn/layers/pool/pool.h"

#include <fmt/format.h>

#include <vector>

#include "core/autograd/record.h"
#include "core/ops/conv/unbatched.h"
#include "core/ops/index/index.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "nn/functional/functional.h"

namespace dl::nn {
namespace {

bool is_relu_before(const Fusion& fusion) {
  return fusion.before == Activation::kRelu && fusion.after == Activation::kNone &&
         !fusion.residual.defined();
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

namespace functional {
namespace {

// Applies f to the lines as images of height 1.
template <typename F>
Tensor of_lines(const Tensor& input, std::string_view op, const F& f) {
  DL_CHECK(input.defined() && (input.dim() == 2 || input.dim() == 3), kShape,
           "{}: the input has shape {}, wanted [N, C, L] or [C, L]", op,
           input.defined() ? input.sizes().str() : "none");
  if (is_unbatched(input, 3)) {
    return without_batch(input, "SqueezeBackward1",
                         [&](const Tensor& lines) { return f(lines.unsqueeze(2)).squeeze(2); });
  }
  return f(input.unsqueeze(2)).squeeze(2);
}

// The largest element of each [n, c] of a part of the image; the first of equal elements.
Tensor largest_of_part(const Tensor& part) {
  return max(part.flatten(2), 2).first;
}

}  // namespace

Tensor max_pool1d(const Tensor& input, std::int64_t kernel_size, MaxPool1dOptions options) {
  return of_lines(input, "max_pool1d", [&](const Tensor& image) {
    return functional::max_pool2d(image, IntPair(1, kernel_size),
                                  {.stride = IntPair(1, options.stride.value_or(kernel_size)),
                                   .padding = {0, options.padding},
                                   .dilation = {1, options.dilation},
                                   .ceil_mode = options.ceil_mode});
  });
}

Tensor avg_pool1d(const Tensor& input, std::int64_t kernel_size, AvgPool1dOptions options) {
  return of_lines(input, "avg_pool1d", [&](const Tensor& image) {
    return dl::avg_pool2d(image, {.kernel = {1, kernel_size},
                                  .stride = {1, options.stride.value_or(kernel_size)},
                                  .padding = {0, options.padding},
                                  .ceil_mode = options.ceil_mode,
                                  .count_include_pad = options.count_include_pad});
  });
}

Tensor adaptive_max_pool2d(const Tensor& input, IntPair output_size) {
  if (is_unbatched(input, 4)) {
    return without_batch(input, "AdaptiveMaxPool2DBackward0",
                         [&](const Tensor& x) { return adaptive_max_pool2d(x, output_size); });
  }
  DL_CHECK(input.defined() && input.dim() == 4 && input.size(2) > 0 && input.size(3) > 0, kShape,
           "adaptive_max_pool2d: the input has shape {}, wanted [N, C, H, W] or [C, H, W]",
           input.defined() ? input.sizes().str() : "none");
  const std::int64_t h = input.size(2);
  const std::int64_t w = input.size(3);
  const std::int64_t rows = output_size.h == 0 ? h : output_size.h;
  const std::int64_t columns = output_size.w == 0 ? w : output_size.w;
  DL_CHECK(rows > 0 && columns > 0, kInvalidArgument,
           "adaptive_max_pool2d: the size is [{}, {}], wanted at least 0", rows, columns);
  if (h % rows == 0 && w % columns == 0)
    return functional::max_pool2d(input, IntPair(h / rows, w / columns));
  std::vector<Tensor> parts;
  const auto begin = [](std::int64_t i, std::int64_t in, std::int64_t out) { return i * in / out; };
  const auto end = [](std::int64_t i, std::int64_t in, std::int64_t out) {
    return ((i + 1) * in + out - 1) / out;
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      parts.push_back(largest_of_part(input.slice(2, begin(i, h, rows), end(i, h, rows))
                                          .slice(3, begin(j, w, columns), end(j, w, columns))));
    }
  }
  return dl::detail::drop_base(stack(parts, 2).view({input.size(0), input.size(1), rows, columns}));
}

}  // namespace functional

Tensor MaxPool1d::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::max_pool1d(input, kernel_size, options);
}

std::string MaxPool1d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     kernel_size, options.stride.value_or(kernel_size), options.padding,
                     options.dilation, options.ceil_mode ? "True" : "False");
}

Tensor AvgPool1d::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::avg_pool1d(input, kernel_size, options);
}

std::string AvgPool1d::extra_repr() const {
  return fmt::format("kernel_size=({},), stride=({},), padding=({},)", kernel_size,
                     options.stride.value_or(kernel_size), options.padding);
}

Tensor AdaptiveMaxPool2d::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::adaptive_max_pool2d(input, output_size);
}

std::string AdaptiveMaxPool2d::extra_repr() const {
  const auto side = [](std::int64_t size) { return size == 0 ? "None" : fmt::format("{}", size); };
  if (output_size.one_number) return "output_size=" + side(output_size.h);
  return fmt::format("output_size=({}, {})", side(output_size.h), side(output_size.w));
}

}  // namespace dl::nn
