#include "nn/layers/pool/resample.h"

#include <cmath>

#include "nn/layers/repr.h"

namespace dl::nn {
namespace {

void check_upsample(const UpsampleOptions& options) {
  DL_CHECK(options.size.has_value() != options.scale_factor.has_value(), kInvalidArgument,
           "Upsample: {} given, wanted either size or scale_factor",
           options.size ? "both were" : "neither was");
  DL_CHECK(!options.scale_factor || *options.scale_factor > 0, kInvalidArgument,
           "Upsample: scale_factor is {}, wanted more than 0", *options.scale_factor);
  DL_CHECK(!options.align_corners || options.mode == UpsampleMode::kBilinear, kInvalidArgument,
           "Upsample: align_corners is an option of kBilinear");
}

}  // namespace

namespace functional {

Tensor avg_pool2d(const Tensor& input, IntPair kernel_size, const AvgPool2dOptions& options) {
  return dl::avg_pool2d(input, {.kernel = kernel_size,
                                .stride = options.stride.value_or(kernel_size),
                                .padding = options.padding,
                                .ceil_mode = options.ceil_mode,
                                .count_include_pad = options.count_include_pad,
                                .divisor_override = options.divisor_override});
}

Tensor adaptive_avg_pool2d(const Tensor& input, IntPair output_size) {
  return dl::adaptive_avg_pool2d(input, output_size);
}

Tensor interpolate(const Tensor& input, const UpsampleOptions& options) {
  check_upsample(options);
  UpsampleArgs args{.mode = options.mode, .align_corners = options.align_corners};
  if (options.size) {
    args.size = *options.size;
  } else {
    DL_CHECK(input.defined() && input.dim() == 4, kShape,
             "upsample: the input has shape {}, wanted [N, C, H, W]",
             input.defined() ? input.sizes().str() : "none");
    const double factor = *options.scale_factor;
    for (const std::size_t d : {0u, 1u}) {
      args.size[d] =
          static_cast<std::int64_t>(std::floor(static_cast<double>(input.sizes()[d + 2]) * factor));
    }
    args.factors = {factor, factor};
  }
  return upsample2d(input, args);
}

}  // namespace functional

Tensor AvgPool2d::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::avg_pool2d(input, kernel_size, options);
}

std::string AvgPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}", kernel_size.as_given(),
                     options.stride.value_or(kernel_size).as_given(), options.padding.as_given());
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::adaptive_avg_pool2d(input, output_size);
}

std::string AdaptiveAvgPool2d::extra_repr() const {
  const auto side = [](std::int64_t size) { return size == 0 ? "None" : fmt::format("{}", size); };
  if (output_size.one_number) return "output_size=" + side(output_size.h);
  return fmt::format("output_size=({}, {})", side(output_size.h), side(output_size.w));
}

Upsample::Upsample(UpsampleOptions given) : options(given) {
  check_upsample(options);
}

Tensor Upsample::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::interpolate(input, options);
}

std::string Upsample::extra_repr() const {
  const char* const mode = options.mode == UpsampleMode::kNearest ? "nearest" : "bilinear";
  if (options.size) return fmt::format("size={}, mode='{}'", options.size->as_given(), mode);
  return fmt::format("scale_factor={}, mode='{}'", python_float(*options.scale_factor), mode);
}

}  // namespace dl::nn
