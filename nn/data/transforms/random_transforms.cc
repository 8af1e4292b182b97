// Transforms that draw random numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/random/distributions.h"
#include "nn/data/transforms/image.h"
#include "nn/data/transforms/transforms.h"
#include "nn/data/worker.h"

namespace dl::data::transforms {

using detail::checked_image;
using detail::checked_size;
using detail::cropped;
using detail::padded;
using detail::rounded;
using detail::size_of_image;

namespace {

constexpr std::string_view kRandomCrop = "RandomCrop";

// torch.empty(1).uniform_(low, high).item()
double uniform(double low, double high) {
  float value = 0;
  random::fill_uniform(std::span(&value, 1), low, high, sample_generator());
  return value;
}

// torch.randint(0, end, (1,)).item()
std::int64_t below(std::int64_t end) {
  std::int64_t value = 0;
  random::fill_randint(std::span(&value, 1), 0, end, sample_generator());
  return value;
}

// True if random numbers in [low, high) can be drawn in float32.
bool is_range(double low, double high) noexcept {
  constexpr double kMost = std::numeric_limits<float>::max() / 2;
  return low <= high && std::abs(low) <= kMost && std::abs(high) <= kMost;
}

// True if random numbers in [low, high) can be drawn in float32 and are all above 0.
bool is_positive_range(double low, double high) noexcept {
  return is_range(low, high) && low >= double{std::numeric_limits<float>::min()};
}

}  // namespace

void detail::check_probability(double p, std::string_view name) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "{}: p is {}, wanted 0 to 1", name, p);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  detail::check_probability(p, "RandomHorizontalFlip");
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image) const {
  detail::check_image(image, "RandomHorizontalFlip");
  return uniform(0, 1) < p_ ? detail::mirrored(image) : detail::unchanged(image);
}

RandomVerticalFlip::RandomVerticalFlip(double p) : p_(p) {
  detail::check_probability(p, "RandomVerticalFlip");
}

Tensor RandomVerticalFlip::operator()(const Tensor& image) const {
  detail::check_image(image, "RandomVerticalFlip");
  return uniform(0, 1) < p_ ? detail::upside_down(image) : detail::unchanged(image);
}

RandomGrayscale::RandomGrayscale(double p) : p_(p) {
  detail::check_probability(p, "RandomGrayscale");
}

Tensor RandomGrayscale::operator()(const Tensor& image) const {
  detail::check_colors(image, "RandomGrayscale");
  const Tensor in = checked_image(image, "RandomGrayscale");
  if (!(uniform(0, 1) < p_)) return detail::unchanged(image);
  return rgb_to_grayscale(in, in.dim() < 3 ? 1 : in.size(-3));
}

RandomErasing::RandomErasing(double p, RandomErasingOptions options)
    : p_(p), options_(std::move(options)) {
  constexpr std::string_view kName = "RandomErasing";
  detail::check_probability(p, kName);
  DL_CHECK(is_range(options_.min_scale, options_.max_scale) && options_.min_scale >= 0 &&
               options_.max_scale <= 1,
           kInvalidArgument, "{}: the scale is {} to {}, wanted numbers from 0 to 1 in order",
           kName, options_.min_scale, options_.max_scale);
  DL_CHECK(is_positive_range(options_.min_ratio, options_.max_ratio), kInvalidArgument,
           "{}: the ratio is {} to {}, wanted more than 0 and not less", kName, options_.min_ratio,
           options_.max_ratio);
  DL_CHECK(!options_.value.empty(), kInvalidArgument,
           "{}: value is empty, wanted a number for all channels or for each", kName);
}

Tensor RandomErasing::operator()(const Tensor& image) const {
  constexpr std::string_view kName = "RandomErasing";
  const Tensor in = checked_image(image, kName);
  DL_CHECK(in.dim() == 3, kShape, "{}: got an image {}, wanted [channels, height, width]", kName,
           in.sizes().str());
  const std::int64_t channels = in.size(0);
  const auto values = static_cast<std::int64_t>(options_.value.size());
  DL_CHECK(options_.random || values == 1 || values == channels, kInvalidArgument,
           "{}: value has {} numbers for {} channels, wanted 1 or as many", kName, values,
           channels);
  DL_CHECK(!options_.random || in.dtype() == DType::kF32, kDType,
           "{}: got an image of uint8, wanted float32 for random numbers; put ToTensor() before it",
           kName);
  if (!(uniform(0, 1) < p_)) return detail::unchanged(image);
  const ImageSize from = size_of_image(in);
  const auto area = static_cast<double>(from.height * from.width);
  const double low = std::log(static_cast<float>(options_.min_ratio));
  const double high = std::log(static_cast<float>(options_.max_ratio));
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * uniform(options_.min_scale, options_.max_scale);
    const double ratio = std::exp(static_cast<float>(uniform(low, high)));
    const double height = std::nearbyint(std::sqrt(target * ratio));
    const double width = std::nearbyint(std::sqrt(target / ratio));
    if (!(height < static_cast<double>(from.height) && width < static_cast<double>(from.width))) {
      continue;
    }
    const ImageSize size{.height = rounded(height), .width = rounded(width)};
    Tensor numbers = empty({channels, size.height, size.width});
    if (options_.random) {
      numbers.normal_(0, 1, sample_generator());
    } else {
      for (std::int64_t c = 0; c < channels; ++c) {
        numbers.select(0, c).fill_(options_.value[static_cast<std::size_t>(values == 1 ? 0 : c)]);
      }
    }
    const std::int64_t top = below(from.height - size.height + 1);
    const std::int64_t left = below(from.width - size.width + 1);
    const Tensor out = in.clone();
    cropped(out, top, left, size).copy_(numbers);
    return out;
  }
  return detail::unchanged(image);
}

std::optional<JitterRange::Bounds> JitterRange::bounds(double neutral, double least, double most,
                                                       const char* name) const {
  DL_CHECK(!is_amount_ || first_ >= 0, kInvalidArgument, "ColorJitter: {} is {}, wanted at least 0",
           name, first_);
  Bounds range{first_, max_};
  if (is_amount_) {
    range = {neutral - first_, neutral + first_};
    if (neutral > 0) range.min = std::max(range.min, 0.0);
  }
  DL_CHECK(range.min >= least && range.min <= range.max && range.max <= most &&
               is_range(range.min, range.max),
           kInvalidArgument, "ColorJitter: {} is {} to {}, wanted numbers from {} to {} in order",
           name, range.min, range.max, least, most);
  if (range.min == neutral && range.max == neutral) return std::nullopt;
  return range;
}

ColorJitter::ColorJitter(ColorJitterOptions options)
    : ranges_{options.brightness.bounds(1, 0, detail::kMostFactor, "brightness"),
              options.contrast.bounds(1, 0, detail::kMostFactor, "contrast"),
              options.saturation.bounds(1, 0, detail::kMostFactor, "saturation"),
              options.hue.bounds(0, -0.5, 0.5, "hue")} {}

Tensor ColorJitter::operator()(const Tensor& image) const {
  detail::check_colors(image, "ColorJitter");
  std::int64_t order[4];
  random::fill_randperm(order, sample_generator());
  double factors[4] = {};
  for (std::size_t i = 0; i < 4; ++i) {
    if (ranges_[i]) factors[i] = uniform(ranges_[i]->min, ranges_[i]->max);
  }
  constexpr Tensor (*kAdjust[])(const Tensor&, double) = {&adjust_brightness, &adjust_contrast,
                                                          &adjust_saturation, &adjust_hue};
  Tensor result = detail::unchanged(image);
  for (const std::int64_t which : order) {
    const auto i = static_cast<std::size_t>(which);
    if (ranges_[i]) result = kAdjust[i](result, factors[i]);
  }
  return result;
}

RandomCrop::RandomCrop(ImageSize size, RandomCropOptions options)
    : size_(checked_size(size, kRandomCrop)), options_(options) {
  if (const auto& sides = options.padding.sides()) detail::check_padding(*sides, kRandomCrop);
}

Tensor RandomCrop::operator()(const Tensor& image) const {
  Tensor in = checked_image(image, kRandomCrop);
  if (const auto& sides = options_.padding.sides()) {
    in = padded(in, *sides, options_.pad, kRandomCrop);
  }
  ImageSize from = size_of_image(in);
  if (options_.pad_if_needed && (from.height < size_.height || from.width < size_.width)) {
    const std::int64_t rows = std::max<std::int64_t>(0, size_.height - from.height);
    const std::int64_t columns = std::max<std::int64_t>(0, size_.width - from.width);
    in = padded(in, {.left = columns, .top = rows, .right = columns, .bottom = rows}, options_.pad,
                kRandomCrop);
    from = size_of_image(in);
  }
  DL_CHECK(from.height >= size_.height && from.width >= size_.width, kShape,
           "RandomCrop: the image is {}x{}, wanted at least {}x{}; set pad_if_needed for smaller "
           "ones",
           from.height, from.width, size_.height, size_.width);
  if (from == size_) return in;
  const std::int64_t top = below(from.height - size_.height + 1);
  const std::int64_t left = below(from.width - size_.width + 1);
  return cropped(in, top, left, size_);
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, RandomResizedCropOptions options)
    : size_(checked_size(size, "RandomResizedCrop")), options_(options) {
  DL_CHECK(is_positive_range(options.min_scale, options.max_scale), kInvalidArgument,
           "RandomResizedCrop: the scale is {} to {}, wanted more than 0 and not less",
           options.min_scale, options.max_scale);
  DL_CHECK(is_positive_range(options.min_ratio, options.max_ratio), kInvalidArgument,
           "RandomResizedCrop: the ratio is {} to {}, wanted more than 0 and not less",
           options.min_ratio, options.max_ratio);
}

Tensor RandomResizedCrop::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "RandomResizedCrop");
  const auto resize = [this](const Tensor& crop) {
    return detail::resized(crop, size_, "RandomResizedCrop");
  };
  const ImageSize from = size_of_image(in);
  const auto area = static_cast<double>(from.height * from.width);
  const double low = std::log(static_cast<float>(options_.min_ratio));
  const double high = std::log(static_cast<float>(options_.max_ratio));
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * uniform(options_.min_scale, options_.max_scale);
    const double ratio = std::exp(static_cast<float>(uniform(low, high)));
    const double height = std::nearbyint(std::sqrt(target / ratio));
    const double width = std::nearbyint(std::sqrt(target * ratio));
    // Compare doubles: a number that overflows int64 is outside the image anyway.
    if (!(width >= 1 && width <= static_cast<double>(from.width) && height >= 1 &&
          height <= static_cast<double>(from.height))) {
      continue;
    }
    const ImageSize size{.height = rounded(height), .width = rounded(width)};
    const std::int64_t top = below(from.height - size.height + 1);
    const std::int64_t left = below(from.width - size.width + 1);
    return resize(cropped(in, top, left, size));
  }
  const auto at_least_1 = [](double side) { return std::max<std::int64_t>(1, rounded(side)); };
  ImageSize size = from;
  const double ratio = static_cast<double>(from.width) / static_cast<double>(from.height);
  if (ratio < options_.min_ratio) {
    size.height = at_least_1(static_cast<double>(from.width) / options_.min_ratio);
  } else if (ratio > options_.max_ratio) {
    size.width = at_least_1(static_cast<double>(from.height) * options_.max_ratio);
  }
  return resize(cropped(in, (from.height - size.height) / 2, (from.width - size.width) / 2, size));
}

RandomRotation::RandomRotation(double degrees, RandomRotationOptions options)
    : RandomRotation(-degrees, degrees, options) {}
RandomRotation::RandomRotation(double min_degrees, double max_degrees,
                               RandomRotationOptions options)
    : min_(min_degrees), max_(max_degrees), options_(options) {
  DL_CHECK(is_range(min_, max_), kInvalidArgument,
           "RandomRotation: the angle is {} to {} degrees, wanted finite numbers in order", min_,
           max_);
}

Tensor RandomRotation::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "RandomRotation");  // before it draws
  return detail::rotated(in, uniform(min_, max_), options_.fill, "RandomRotation");
}

GaussianBlur::GaussianBlur(std::int64_t kernel_size, GaussianBlurOptions options)
    : kernel_size_(kernel_size), options_(options) {
  detail::check_kernel_size(kernel_size, "GaussianBlur");
  DL_CHECK(is_positive_range(options.min_sigma, options.max_sigma), kInvalidArgument,
           "GaussianBlur: sigma is {} to {}, wanted more than 0 and not less", options.min_sigma,
           options.max_sigma);
}

Tensor GaussianBlur::operator()(const Tensor& image) const {
  return detail::blurred(image, kernel_size_, uniform(options_.min_sigma, options_.max_sigma),
                         "GaussianBlur");
}

}  // namespace dl::data::transforms
