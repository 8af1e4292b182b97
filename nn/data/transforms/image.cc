#include "nn/data/transforms/image.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "nn/data/transforms/plane.h"

namespace dl::data::transforms::detail {
namespace {

template <typename T>
void gather_lines(const Tensor& in, const Tensor& out, const Lines& rows, const Lines& columns,
                  T fill) {
  const ImageSize size = size_of_image(in);
  const T* const first = in.data<T>();
  T* to = out.data<T>();
  const bool is_run = columns.front() >= 0 && columns.back() >= 0 &&
                      std::ranges::adjacent_find(columns, [](std::int64_t a, std::int64_t b) {
                        return b != a + 1;
                      }) == columns.end();
  for (std::int64_t p = 0; p < planes_of(in); ++p) {
    for (const std::int64_t row : rows) {
      if (row < 0) {
        to = std::fill_n(to, columns.size(), fill);
        continue;
      }
      const T* const from = first + (p * size.height + row) * size.width;
      if (is_run) {
        to = std::copy_n(from + columns.front(), columns.size(), to);
      } else {
        for (const std::int64_t column : columns) *to++ = column < 0 ? fill : from[column];
      }
    }
  }
}

// The image's rows may have gaps, as after a crop; the result is row-major.
template <typename T>
void mirror_rows(const Tensor& image, T* out) {
  const std::size_t rank = image.sizes().size();
  const std::int64_t width = image.size(-1);
  const std::int64_t step = image.stride(-1);
  const std::int64_t rows = image.numel() / width;
  for (std::int64_t r = 0; r < rows; ++r, out += width) {
    std::int64_t offset = 0;
    std::int64_t rest = r;
    for (std::size_t d = rank - 1; d-- > 0; rest /= image.sizes()[d]) {
      offset += rest % image.sizes()[d] * image.strides()[d];
    }
    const T* const row = image.data<T>() + offset;
    if (step == 1) {
      // Reads memory forwards; backwards took more than twice as long.
      std::copy_n(row, width, out);
      std::reverse(out, out + width);
    } else {
      for (std::int64_t x = 0; x < width; ++x) out[x] = row[(width - 1 - x) * step];
    }
  }
}

// Calls visit(value) with the value converted to the image's element type.
template <typename Visit>
void visit_pixels(const Tensor& image, double fill, std::string_view name, const Visit& visit) {
  if (image.dtype() == DType::kF32) {
    visit(static_cast<float>(fill));
  } else {
    DL_CHECK(!std::isnan(fill), kInvalidArgument,
             "{}: fill is nan for an image of uint8, wanted a number", name);
    visit(static_cast<std::uint8_t>(std::clamp(fill, 0.0, 255.0)));
  }
}

Lines padded_lines(std::int64_t size, std::int64_t before, std::int64_t after, PaddingMode mode,
                   std::string_view name) {
  const std::int64_t most = std::max(before, after);
  const std::int64_t kept =
      size + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
  DL_CHECK(before + size + after > 0 && kept > 0, kShape,
           "{}: crops {} and {} lines of an image that has {}, wanted to leave at least 1", name,
           std::max<std::int64_t>(-before, 0), std::max<std::int64_t>(-after, 0), size);
  DL_CHECK(mode != PaddingMode::kReflect || most < size, kShape,
           "{}: reflects {} lines of an image that has {}, wanted fewer than it has", name, most,
           size);
  DL_CHECK(mode != PaddingMode::kSymmetric || most <= kept, kShape,
           "{}: mirrors {} lines of an image that has {}, wanted at most as many", name, most,
           kept);
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

}  // namespace

ImageSize size_of_image(const Tensor& image) {
  return {.height = image.size(-2), .width = image.size(-1)};
}

std::int64_t planes_of(const Tensor& image) {
  const ImageSize size = size_of_image(image);
  return image.numel() / (size.height * size.width);
}

void check_image(const Tensor& image, std::string_view name) {
  DL_CHECK(image.defined(), kInvalidArgument, "{}: the image is undefined", name);
  DL_CHECK(image.dim() >= 2 && image.size(-2) > 0 && image.size(-1) > 0, kShape,
           "{}: got an image {}, wanted [..., height, width] with at least 1 pixel", name,
           image.sizes().str());
  DL_CHECK(image.device().type == DeviceType::kCPU, kInvalidArgument,
           "{}: the image is on {}, wanted cpu", name, image.device().str());
  DL_CHECK(image.dtype() == DType::kF32 || image.dtype() == DType::kU8, kDType,
           "{}: got an image of {}, wanted float32 or uint8", name, name_of(image.dtype()));
}

Tensor checked_image(const Tensor& image, std::string_view name) {
  check_image(image, name);
  return image.detach().contiguous();
}

Tensor unchanged(const Tensor& image) {
  return image.requires_grad() ? image.detach() : image;
}

ImageSize checked_size(ImageSize size, std::string_view name) {
  DL_CHECK(size.height > 0 && size.width > 0, kInvalidArgument,
           "{}: the size is {}x{}, wanted at least 1x1", name, size.height, size.width);
  DL_CHECK(size.height <= kMostSide && size.width <= kMostSide, kInvalidArgument,
           "{}: the size is {}x{}, wanted at most {} pixels a side", name, size.height, size.width,
           kMostSide);
  return size;
}

Tensor planes_like(const Tensor& image, ImageSize size) {
  Shape shape = image.sizes();
  shape[shape.size() - 2] = size.height;
  shape[shape.size() - 1] = size.width;
  return empty(shape, {.dtype = image.dtype()});
}

Tensor rounded_to_u8(const Tensor& image) {
  const Tensor result = empty(image.sizes(), {.dtype = DType::kU8});
  std::transform(image.data<float>(), image.data<float>() + image.numel(),
                 result.data<std::uint8_t>(), [](float x) {
                   return static_cast<std::uint8_t>(std::nearbyint(std::clamp(x, 0.0F, 255.0F)));
                 });
  return result;
}

Lines counted_lines(std::int64_t first, std::int64_t count) {
  Lines lines(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) lines[static_cast<std::size_t>(i)] = first + i;
  return lines;
}

Tensor gathered(const Tensor& image, const Lines& rows, const Lines& columns, double fill,
                std::string_view name) {
  const Tensor out = planes_like(image, {.height = std::ssize(rows), .width = std::ssize(columns)});
  visit_pixels(image, fill, name,
               [&](auto value) { gather_lines(image, out, rows, columns, value); });
  return out;
}

Tensor gathered_pixels(const Tensor& image, const std::vector<std::int32_t>& pixels, double fill,
                       std::string_view name) {
  const Tensor out = planes_like(image, size_of_image(image));
  visit_pixels(image, fill, name, [&]<typename T>(T value) {
    T* to = out.data<T>();
    for (std::int64_t p = 0; p < planes_of(image); ++p) {
      const T* const from = image.data<T>() + p * std::ssize(pixels);
      for (const std::int32_t pixel : pixels) *to++ = pixel < 0 ? value : from[pixel];
    }
  });
  return out;
}

Tensor mirrored(const Tensor& image) {
  const Tensor out = empty(image.sizes(), {.dtype = image.dtype()});
  if (image.dtype() == DType::kF32) {
    mirror_rows<float>(image, out.data<float>());
  } else {
    mirror_rows<std::uint8_t>(image, out.data<std::uint8_t>());
  }
  return out;
}

Tensor upside_down(const Tensor& image) {
  const ImageSize size = size_of_image(image);
  Lines rows = counted_lines(0, size.height);
  std::ranges::reverse(rows);
  return gathered(checked_image(image, "RandomVerticalFlip"), rows, counted_lines(0, size.width), 0,
                  "RandomVerticalFlip");
}

Tensor cropped(const Tensor& image, std::int64_t top, std::int64_t left, ImageSize size) {
  return image.narrow(-2, top, size.height).narrow(-1, left, size.width);
}

void check_padding(const Padding& padding, std::string_view name) {
  const auto [least, most] =
      std::minmax({padding.left, padding.top, padding.right, padding.bottom});
  DL_CHECK(least >= -kMostSide && most <= kMostSide, kInvalidArgument,
           "{}: the padding of a side is {} lines, wanted {} to {}", name,
           most > kMostSide ? most : least, -kMostSide, kMostSide);
}

Tensor padded(const Tensor& image, const Padding& padding, const PadOptions& options,
              std::string_view name) {
  const ImageSize size = size_of_image(image);
  return gathered(image, padded_lines(size.height, padding.top, padding.bottom, options.mode, name),
                  padded_lines(size.width, padding.left, padding.right, options.mode, name),
                  options.fill, name);
}

std::int64_t rounded(double x) {
  return static_cast<std::int64_t>(std::nearbyint(x));
}

}  // namespace dl::data::transforms::detail
