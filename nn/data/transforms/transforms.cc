#include "nn/data/transforms/transforms.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/error.h"
#include "core/random/distributions.h"
#include "core/tensor/factories.h"
#include "nn/data/worker.h"

namespace dl::data::transforms {
namespace {

// ---- images -------------------------------------------------------------------------------------

ImageSize size_of_image(const Tensor& image) {
  return {.height = image.size(-2), .width = image.size(-1)};
}

std::int64_t planes_of(const Tensor& image) {
  const ImageSize size = size_of_image(image);
  return image.numel() / (size.height * size.width);
}

// Returns the image, row-major and without history. Throws if the tensor is not an image.
Tensor checked_image(const Tensor& image, const char* name) {
  DL_CHECK(image.defined(), kInvalidArgument, "{}: the image is undefined", name);
  DL_CHECK(image.dim() >= 2 && image.numel() > 0, kShape,
           "{}: got an image {}, wanted [..., height, width] with at least 1 pixel", name,
           image.sizes().str());
  DL_CHECK(image.device().type == DeviceType::kCPU, kInvalidArgument,
           "{}: the image is on {}, wanted cpu", name, image.device().str());
  DL_CHECK(image.dtype() == DType::kF32 || image.dtype() == DType::kU8, kDType,
           "{}: got an image of {}, wanted f32 or u8", name, short_name(image.dtype()));
  return image.detach().contiguous();
}

Tensor planes_like(const Tensor& image, ImageSize size) {
  Shape shape = image.sizes();
  shape[shape.size() - 2] = size.height;
  shape[shape.size() - 1] = size.width;
  return empty(shape, {.dtype = image.dtype()});
}

// Calls compute(in, out) with f32 planes of the image and of a result of `size`; rounds for u8.
template <typename Compute>
Tensor computed(const Tensor& image, ImageSize size, const Compute& compute) {
  const Tensor in = image.to(DType::kF32);
  const Tensor out = planes_like(in, size);
  compute(in.data<float>(), out.data<float>());
  if (image.dtype() == DType::kF32) return out;
  const Tensor rounded = planes_like(image, size);
  std::transform(out.data<float>(), out.data<float>() + out.numel(), rounded.data<std::uint8_t>(),
                 [](float x) {
                   return static_cast<std::uint8_t>(std::nearbyint(std::clamp(x, 0.0F, 255.0F)));
                 });
  return rounded;
}

// ---- pixels that move ---------------------------------------------------------------------------

// For each row or column of the result: its row or column in the original, or -1 for the fill
// value.
using Lines = std::vector<std::int64_t>;

Lines counted_lines(std::int64_t first, std::int64_t count) {
  Lines lines(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) lines[static_cast<std::size_t>(i)] = first + i;
  return lines;
}

template <typename T>
void gather_lines(const Tensor& in, const Tensor& out, const Lines& rows, const Lines& columns,
                  T fill) {
  const ImageSize size = size_of_image(in);
  const T* const first = in.data<T>();
  T* to = out.data<T>();
  const auto goes_by = [&](std::int64_t step) {
    return columns.front() >= 0 && columns.back() >= 0 &&
           std::ranges::adjacent_find(columns, [&](std::int64_t a, std::int64_t b) {
             return b != a + step;
           }) == columns.end();
  };
  const bool is_run = goes_by(1);
  const bool is_mirrored = goes_by(-1);
  for (std::int64_t p = 0; p < planes_of(in); ++p) {
    for (const std::int64_t row : rows) {
      const T* const from = first + (p * size.height + row) * size.width;
      if (row < 0) {
        to = std::fill_n(to, columns.size(), fill);
      } else if (is_run) {
        to = std::copy_n(from + columns.front(), columns.size(), to);
      } else if (is_mirrored) {
        to = std::reverse_copy(from + columns.back(), from + columns.front() + 1, to);
      } else {
        for (const std::int64_t column : columns) *to++ = column < 0 ? fill : from[column];
      }
    }
  }
}

// Calls visit(value) with the value converted to the image's element type.
template <typename Visit>
void visit_pixels(const Tensor& image, double value, const Visit& visit) {
  if (image.dtype() == DType::kF32) {
    visit(static_cast<float>(value));
  } else {
    visit(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
  }
}

Tensor gathered(const Tensor& image, const Lines& rows, const Lines& columns, double fill = 0) {
  const Tensor out = planes_like(image, {.height = std::ssize(rows), .width = std::ssize(columns)});
  visit_pixels(image, fill, [&](auto value) { gather_lines(image, out, rows, columns, value); });
  return out;
}

// Returns a view.
Tensor cropped(const Tensor& image, std::int64_t top, std::int64_t left, ImageSize size) {
  return image.narrow(-2, top, size.height).narrow(-1, left, size.width);
}

Lines padded_lines(std::int64_t size, std::int64_t before, std::int64_t after, PaddingMode mode) {
  const std::int64_t most = std::max(before, after);
  DL_CHECK(mode != PaddingMode::kReflect || most < size, kShape,
           "Pad: reflects {} lines of an image that has {}, wanted fewer than it has", most, size);
  DL_CHECK(mode != PaddingMode::kSymmetric || most <= size, kShape,
           "Pad: mirrors {} lines of an image that has {}, wanted at most as many", most, size);
  Lines lines = counted_lines(-before, before + size + after);
  for (std::int64_t& line : lines) {
    if (line >= 0 && line < size) continue;
    const bool low = line < 0;
    switch (mode) {
      case PaddingMode::kConstant:
        line = -1;
        break;
      case PaddingMode::kEdge:
        line = low ? 0 : size - 1;
        break;
      case PaddingMode::kReflect:
        line = low ? -line : 2 * size - 2 - line;
        break;
      case PaddingMode::kSymmetric:
        line = low ? -line - 1 : 2 * size - 1 - line;
        break;
    }
  }
  return lines;
}

Tensor padded(const Tensor& image, const Padding& padding, const PadOptions& options) {
  const ImageSize size = size_of_image(image);
  return gathered(image, padded_lines(size.height, padding.top, padding.bottom, options.mode),
                  padded_lines(size.width, padding.left, padding.right, options.mode),
                  options.fill);
}

// ---- options and draws --------------------------------------------------------------------------

ImageSize checked_size(ImageSize size, const char* name) {
  DL_CHECK(size.height > 0 && size.width > 0, kInvalidArgument,
           "{}: the size is {}x{}, wanted at least 1x1", name, size.height, size.width);
  return size;
}

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

std::int64_t rounded(double x) {
  return static_cast<std::int64_t>(std::nearbyint(x));
}

}  // namespace

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
  if (to == from) return in;
  const AntialiasedResize resize(from, to);
  return computed(in, to,
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
                {});
  }
  const ImageSize now = size_of_image(in);
  return cropped(in, rounded(static_cast<double>(now.height - size_.height) / 2),
                 rounded(static_cast<double>(now.width - size_.width) / 2), size_);
}

Pad::Pad(Padding padding, PadOptions options) : padding_(padding), options_(options) {
  DL_CHECK(std::min({padding.left, padding.top, padding.right, padding.bottom}) >= 0,
           kInvalidArgument, "Pad: a side has {} lines, wanted at least 0",
           std::min({padding.left, padding.top, padding.right, padding.bottom}));
}

Tensor Pad::operator()(const Tensor& image) const {
  return padded(checked_image(image, "Pad"), padding_, options_);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "RandomHorizontalFlip: p is {}, wanted 0 to 1", p);
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "RandomHorizontalFlip");
  if (!(uniform(0, 1) < p_)) return in;
  const ImageSize size = size_of_image(in);
  Lines columns = counted_lines(0, size.width);
  std::ranges::reverse(columns);
  return gathered(in, counted_lines(0, size.height), columns);
}

RandomCrop::RandomCrop(ImageSize size, RandomCropOptions options)
    : size_(checked_size(size, "RandomCrop")), options_(options) {
  if (options.padding) Pad(*options.padding, options.pad);  // checks it
}

Tensor RandomCrop::operator()(const Tensor& image) const {
  Tensor in = checked_image(image, "RandomCrop");
  if (options_.padding) in = padded(in, *options_.padding, options_.pad);
  ImageSize from = size_of_image(in);
  if (options_.pad_if_needed && (from.height < size_.height || from.width < size_.width)) {
    const std::int64_t rows = std::max<std::int64_t>(0, size_.height - from.height);
    const std::int64_t columns = std::max<std::int64_t>(0, size_.width - from.width);
    in = padded(in, {.left = columns, .top = rows, .right = columns, .bottom = rows}, options_.pad);
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
  DL_CHECK(options.min_scale > 0 && options.min_scale <= options.max_scale, kInvalidArgument,
           "RandomResizedCrop: the scale is {} to {}, wanted more than 0 and not less",
           options.min_scale, options.max_scale);
  DL_CHECK(options.min_ratio > 0 && options.min_ratio <= options.max_ratio, kInvalidArgument,
           "RandomResizedCrop: the ratio is {} to {}, wanted more than 0 and not less",
           options.min_ratio, options.max_ratio);
}

Tensor RandomResizedCrop::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "RandomResizedCrop");
  const Resize resize(size_);
  const ImageSize from = size_of_image(in);
  const auto area = static_cast<double>(from.height * from.width);
  const double low = std::log(static_cast<float>(options_.min_ratio));
  const double high = std::log(static_cast<float>(options_.max_ratio));
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * uniform(options_.min_scale, options_.max_scale);
    const double ratio = std::exp(static_cast<float>(uniform(low, high)));
    const ImageSize size{.height = rounded(std::sqrt(target / ratio)),
                         .width = rounded(std::sqrt(target * ratio))};
    if (size.width < 1 || size.width > from.width || size.height < 1 || size.height > from.height) {
      continue;
    }
    const std::int64_t top = below(from.height - size.height + 1);
    const std::int64_t left = below(from.width - size.width + 1);
    return resize(cropped(in, top, left, size));
  }
  ImageSize size = from;
  const double ratio = static_cast<double>(from.width) / static_cast<double>(from.height);
  if (ratio < options_.min_ratio) {
    size.height = rounded(static_cast<double>(from.width) / options_.min_ratio);
  } else if (ratio > options_.max_ratio) {
    size.width = rounded(static_cast<double>(from.height) * options_.max_ratio);
  }
  return resize(cropped(in, (from.height - size.height) / 2, (from.width - size.width) / 2, size));
}

RandomRotation::RandomRotation(double degrees, RandomRotationOptions options)
    : RandomRotation(-degrees, degrees, options) {}
RandomRotation::RandomRotation(double min_degrees, double max_degrees,
                               RandomRotationOptions options)
    : min_(min_degrees), max_(max_degrees), options_(options) {
  DL_CHECK(min_ <= max_ && std::isfinite(min_) && std::isfinite(max_), kInvalidArgument,
           "RandomRotation: the angle is {} to {} degrees, wanted finite numbers in order", min_,
           max_);
}

Tensor RandomRotation::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "RandomRotation");
  return rotate(in, uniform(min_, max_), options_.fill);
}

Tensor rotate(const Tensor& image, double degrees, double fill) {
  const Tensor in = checked_image(image, "rotate");
  const ImageSize size = size_of_image(in);
  const Tensor out = planes_like(in, size);
  const std::vector<std::int32_t> pixels = rotated_pixels(size, degrees);
  visit_pixels(in, fill, [&]<typename T>(T value) {
    T* to = out.data<T>();
    for (std::int64_t p = 0; p < planes_of(in); ++p) {
      const T* const from = in.data<T>() + p * size.height * size.width;
      for (const std::int32_t pixel : pixels) *to++ = pixel < 0 ? value : from[pixel];
    }
  });
  return out;
}

GaussianBlur::GaussianBlur(std::int64_t kernel_size, GaussianBlurOptions options)
    : kernel_size_(kernel_size), options_(options) {
  DL_CHECK(kernel_size > 0 && kernel_size % 2 == 1, kInvalidArgument,
           "GaussianBlur: the kernel's size is {}, wanted an odd number of at least 1",
           kernel_size);
  DL_CHECK(options.min_sigma > 0 && options.min_sigma <= options.max_sigma, kInvalidArgument,
           "GaussianBlur: sigma is {} to {}, wanted more than 0 and not less", options.min_sigma,
           options.max_sigma);
}

Tensor GaussianBlur::operator()(const Tensor& image) const {
  return gaussian_blur(image, kernel_size_, uniform(options_.min_sigma, options_.max_sigma));
}

Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma) {
  const Tensor in = checked_image(image, "GaussianBlur");
  const ImageSize size = size_of_image(in);
  DL_CHECK(kernel_size / 2 < std::min(size.height, size.width), kShape,
           "GaussianBlur: the image is {}x{}, wanted more than {} lines for a kernel of {}",
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

Tensor ToTensor::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "ToTensor");
  if (in.dtype() == DType::kF32) return in;
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
}

Tensor Normalize::operator()(const Tensor& image) const {
  const Tensor in = checked_image(image, "Normalize");
  DL_CHECK(in.dtype() == DType::kF32, kDType,
           "Normalize: got an image of u8, wanted f32; put ToTensor() before it");
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
