#include "nn/data/transforms/transforms.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/data/transforms/image.h"
#include "nn/data/transforms/plane.h"

namespace dl::data::transforms {

using detail::checked_image;
using detail::checked_size;
using detail::cropped;
using detail::padded;
using detail::planes_of;
using detail::rounded;
using detail::size_of_image;

Compose::Compose(std::vector<Transform> transforms) : transforms_(std::move(transforms)) {
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    DL_CHECK(transforms_[i] != nullptr, kInvalidArgument,
             "Compose: transform {} is an empty function", i);
  }
}

Tensor Compose::operator()(const Tensor& image) const {
  Tensor result = image;
  for (const Transform& transform : transforms_) result = transform(result);
  return result;
}

Resize::Resize(std::int64_t shorter_side) : shorter_side_(shorter_side) {
  checked_size({shorter_side, shorter_side}, "Resize");
}
Resize::Resize(ImageSize size) : size_(checked_size(size, "Resize")) {}

Tensor Resize::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "Resize");
  const ImageSize from = size_of_image(in);
  ImageSize to = size_;
  if (shorter_side_) {
    const auto [shorter, longer] = std::minmax(from.height, from.width);
    const auto long_side = static_cast<std::int64_t>(static_cast<double>(*shorter_side_ * longer) /
                                                     static_cast<double>(shorter));
    to = from.width <= from.height ? ImageSize{long_side, *shorter_side_}
                                   : ImageSize{*shorter_side_, long_side};
  }
  DL_CHECK(to.height <= kMostSide && to.width <= kMostSide, kShape,
           "Resize: the image is {}x{} and would become {}x{}, wanted at most {} pixels a side",
           from.height, from.width, to.height, to.width, kMostSide);
  return detail::resized(in, to, "Resize");
}

Tensor detail::resized(const Tensor& image, ImageSize size, std::string_view name) {
  Tensor in = image.contiguous();
  const ImageSize from = size_of_image(in);
  if (size == from) return in;
  const AntialiasedResize resize(from, size, name);
  return computed(in, size,
                  [&](const float* pixels, float* out) { resize(pixels, out, planes_of(in)); });
}

CenterCrop::CenterCrop(ImageSize size) : size_(checked_size(size, "CenterCrop")) {}

Tensor CenterCrop::operator()(const Tensor& image) const {
  Tensor in = checked_image(image, "CenterCrop");
  const ImageSize from = size_of_image(in);
  const std::int64_t rows = std::max<std::int64_t>(0, size_.height - from.height);
  const std::int64_t columns = std::max<std::int64_t>(0, size_.width - from.width);
  if (rows > 0 || columns > 0) {
    in = padded(in,
                {.left = columns / 2,
                 .top = rows / 2,
                 .right = (columns + 1) / 2,
                 .bottom = (rows + 1) / 2},
                {}, "CenterCrop");
  }
  const ImageSize now = size_of_image(in);
  return cropped(in, rounded(static_cast<double>(now.height - size_.height) / 2),
                 rounded(static_cast<double>(now.width - size_.width) / 2), size_);
}

void Pad::check() const {
  detail::check_padding(padding_, "Pad");
}

Tensor Pad::operator()(const Tensor& image) const {
  return padded(checked_image(image, "Pad"), padding_, options_, "Pad");
}

Tensor detail::rotated(const Tensor& image, double degrees, double fill, std::string_view name) {
  DL_CHECK(std::isfinite(degrees), kInvalidArgument,
           "{}: the angle is {} degrees, wanted a finite number", name, degrees);
  const Tensor in = checked_image(image, name);
  return gathered_pixels(in, rotated_pixels(size_of_image(in), degrees, name), fill, name);
}

void detail::check_kernel_size(std::int64_t kernel_size, std::string_view name) {
  DL_CHECK(kernel_size > 0 && kernel_size % 2 == 1, kInvalidArgument,
           "{}: the kernel's size is {}, wanted an odd number of at least 1", name, kernel_size);
}

Tensor detail::blurred(const Tensor& image, std::int64_t kernel_size, double sigma,
                       std::string_view name) {
  check_kernel_size(kernel_size, name);
  DL_CHECK(sigma > 0 && std::isfinite(sigma), kInvalidArgument,
           "{}: sigma is {}, wanted a finite number more than 0", name, sigma);
  const Tensor in = checked_image(image, name);
  const ImageSize size = size_of_image(in);
  DL_CHECK(kernel_size / 2 < std::min(size.height, size.width), kShape,
           "{}: the image is {}x{}, wanted more than {} lines for a kernel of {}", name,
           size.height, size.width, kernel_size / 2, kernel_size);
  std::vector<float> kernel(static_cast<std::size_t>(kernel_size));
  float sum = 0;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(kernel_size - 1) / 2) / sigma;
    sum += kernel[i] = static_cast<float>(std::exp(-0.5 * x * x));
  }
  for (float& weight : kernel) weight /= sum;
  return computed(in, size, [&](const float* pixels, float* out) {
    blur(pixels, out, planes_of(in), size, kernel);
  });
}

Tensor rotate(const Tensor& image, double degrees, double fill) {
  return detail::rotated(image, degrees, fill, "rotate");
}

Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma) {
  return detail::blurred(image, kernel_size, sigma, "gaussian_blur");
}

Tensor ToTensor::operator()(const Tensor& image) const {
  detail::check_image(image, "ToTensor");
  if (image.dtype() == DType::kF32) return detail::unchanged(image);
  const Tensor in = checked_image(image, "ToTensor");
  const Tensor out = empty(in.sizes());
  to_unit({static_cast<const std::byte*>(in.data_ptr()), in.nbytes()},
          {out.data<float>(), static_cast<std::size_t>(out.numel())});
  return out;
}

Normalize::Normalize(std::vector<float> mean, std::vector<float> std)
    : mean_(std::move(mean)), std_(std::move(std)) {
  DL_CHECK(!mean_.empty() && mean_.size() == std_.size(), kInvalidArgument,
           "Normalize: got {} means and {} standard deviations, wanted as many, and at least 1",
           mean_.size(), std_.size());
  DL_CHECK(std::ranges::none_of(std_, [](float s) { return s == 0; }), kInvalidArgument,
           "Normalize: a standard deviation is 0");
  for (const std::vector<float>* numbers : {&mean_, &std_}) {
    for (const float number : *numbers) {
      DL_CHECK(std::isfinite(number), kInvalidArgument,
               "Normalize: {} is {}, wanted a finite number",
               numbers == &mean_ ? "a mean" : "a standard deviation", number);
    }
  }
}

Tensor Normalize::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "Normalize");
  DL_CHECK(in.dtype() == DType::kF32, kDType,
           "Normalize: got an image of uint8, wanted float32; put ToTensor() before it");
  const auto channels = static_cast<std::int64_t>(mean_.size());
  DL_CHECK(in.dim() >= 3 && (channels == 1 || in.size(-3) == channels), kShape,
           "Normalize: got an image {} for {} means, wanted [..., {}, height, width]",
           in.sizes().str(), channels, channels);
  const Tensor out = in.clone();
  const std::int64_t pixels = in.size(-1) * in.size(-2);
  for (std::int64_t p = 0; p < planes_of(in); ++p) {
    const auto c = static_cast<std::size_t>(p % channels);
    normalise({out.data<float>() + p * pixels, static_cast<std::size_t>(pixels)}, mean_[c],
              std_[c]);
  }
  return out;
}

}  // namespace dl::data::transforms
