// Helpers of transforms: checks of images and options, and moves of pixels. Unless stated
// otherwise, images must come from checked_image(). `name` is the transform's name in error texts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tensor/factories.h"
#include "core/tensor/tensor.h"
#include "nn/data/transforms/transforms.h"

namespace dl::data::transforms::detail {

ImageSize size_of_image(const Tensor& image);
// The largest factor of brightness, contrast and saturation: the products of it and of bytes are
// finite in float32.
inline constexpr double kMostFactor = 1e30;

// The number of planes [height, width].
std::int64_t planes_of(const Tensor& image);

// Throws kInvalidArgument, kShape or kDType if the tensor is not an image. A batch of 0 images is
// allowed.
void check_image(const Tensor& image, std::string_view name);
// Returns any tensor that is an image, contiguous and without history. Throws as check_image()
// does.
Tensor checked_image(const Tensor& image, std::string_view name);
// Returns any image with its own strides and memory, without history.
Tensor unchanged(const Tensor& image);

// Throws kInvalidArgument unless both sides are 1 to kMostSide pixels.
ImageSize checked_size(ImageSize size, std::string_view name);

// An uninitialised image with these planes and dtype, of another size.
Tensor planes_like(const Tensor& image, ImageSize size);

// Returns float32 numbers as a uint8 image: clamped to 0 to 255, and rounded.
Tensor rounded_to_u8(const Tensor& image);

// Calls compute(in, out) with float32 planes of the image and of a result of `size`. The result has
// the image's dtype.
template <typename Compute>
Tensor computed(const Tensor& image, ImageSize size, const Compute& compute) {
  const Tensor in = image.to(DType::kF32);
  const Tensor out = planes_like(in, size);
  compute(in.data<float>(), out.data<float>());
  return image.dtype() == DType::kF32 ? out : rounded_to_u8(out);
}

// For each row or column of a result: its row or column in the original, or -1 for the fill value.
using Lines = std::vector<std::int64_t>;
Lines counted_lines(std::int64_t first, std::int64_t count);

// Throws kInvalidArgument if `fill` is NaN and the image's dtype has none.
Tensor gathered(const Tensor& image, const Lines& rows, const Lines& columns, double fill,
                std::string_view name);
// The source of each pixel of a plane is `pixels`: row * width + column, or -1 for `fill`. Throws
// as gathered() does.
Tensor gathered_pixels(const Tensor& image, const std::vector<std::int32_t>& pixels, double fill,
                       std::string_view name);

// Returns any image with its columns in reverse order.
Tensor mirrored(const Tensor& image);
// Returns any image with its rows in reverse order.
Tensor upside_down(const Tensor& image);

// Throws as check_image() does, and kShape unless the image has 1 or 3 channels.
void check_colors(const Tensor& image, std::string_view name);

// Throws kInvalidArgument unless p is in [0, 1].
void check_probability(double p, std::string_view name);

// Returns a view.
Tensor cropped(const Tensor& image, std::int64_t top, std::int64_t left, ImageSize size);

// Throws kInvalidArgument unless each side has -kMostSide to kMostSide lines.
void check_padding(const Padding& padding, std::string_view name);
// Throws kShape if the mode mirrors more lines than the image has or if nothing is left, and as
// gathered() does.
Tensor padded(const Tensor& image, const Padding& padding, const PadOptions& options,
              std::string_view name);

// Used by Resize, and by RandomResizedCrop for its crop. Returns the image itself if it has the
// size. Throws as AntialiasedResize does.
Tensor resized(const Tensor& image, ImageSize size, std::string_view name);

// Used by rotate(), and by RandomRotation with its random angle. Throws kInvalidArgument unless the
// angle is finite, and as rotated_pixels() and gathered() do.
Tensor rotated(const Tensor& image, double degrees, double fill, std::string_view name);

// Throws kInvalidArgument unless the size is odd and positive.
void check_kernel_size(std::int64_t kernel_size, std::string_view name);
// Used by gaussian_blur(), and by GaussianBlur with its random sigma. Throws as check_kernel_size()
// does, kInvalidArgument unless sigma is finite and more than 0, and kShape if the image is too
// small.
Tensor blurred(const Tensor& image, std::int64_t kernel_size, double sigma, std::string_view name);

// The nearest integer, ties to even. |x| < 2^63.
std::int64_t rounded(double x);

}  // namespace dl::data::transforms::detail
