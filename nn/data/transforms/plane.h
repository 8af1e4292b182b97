// Functions on planes of pixels. They are plain loops on the caller's memory and thread, because
// they run in a loader's threads, which open no parallel region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dl::data {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) noexcept = default;
};

// The longest side of an image that is resized or rotated: up to here float32 has bits for a
// fraction of a pixel.
inline constexpr std::int64_t kMostSide = std::int64_t{1} << 22;

// Grey values 0 ... 255 as floats 0 ... 1. Sizes must be equal.
void to_unit(std::span<const std::byte> pixels, std::span<float> out) noexcept;

// Bilinear interpolation of one plane to another size: torch.nn.functional.interpolate(mode=
// "bilinear", align_corners=False, antialias=False). Output pixel (y, x) lies at
// ((y + 0.5) * in/out - 0.5, ...) of the input, clamped to its border. The taps are computed once;
// an object may be used from several threads.
class BilinearResize {
 public:
  // Throws kInvalidArgument unless all sides have 1 to kMostSide pixels, and a plane of `from`'s
  // height and `to`'s width fewer than 2^31.
  BilinearResize(ImageSize from, ImageSize to);

  // `in` [height, width] of `from`, `out` of `to`; they must not overlap.
  void operator()(std::span<const float> in, std::span<float> out) const noexcept;
  ImageSize from() const noexcept { return from_; }
  ImageSize to() const noexcept { return to_; }

 private:
  struct Tap {
    std::int64_t low;
    std::int64_t high;
    float high_weight;
  };
  static std::vector<Tap> taps(std::int64_t in, std::int64_t out);

  ImageSize from_;
  ImageSize to_;
  std::vector<Tap> rows_;
  std::vector<Tap> columns_;
};

// Bilinear interpolation with antialias of many planes to another size:
// torch.nn.functional.interpolate(mode="bilinear", align_corners=False, antialias=True). Along each
// dimension an output is the mean of inputs, weighted by a triangle of half-width max(in / out, 1)
// inputs. The taps are computed once; an object may be used from several threads.
class AntialiasedResize {
 public:
  // Throws kInvalidArgument, with the name `who`, unless all sides have 1 to kMostSide pixels, and
  // a plane of `from`'s height and `to`'s width fewer than 2^31.
  AntialiasedResize(ImageSize from, ImageSize to, std::string_view who = "resize");

  // `in` [planes, height, width] of `from`, `out` of `to`; they must not overlap.
  void operator()(const float* in, float* out, std::int64_t planes) const;

 private:
  // Output i is the sum of weights[i * most + j] * input[first[i] + j] for j < count[i].
  struct Taps {
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> count;
    std::vector<float> weights;
    std::int64_t most;
  };
  static Taps taps(std::int64_t in, std::int64_t out);

  ImageSize from_;
  ImageSize to_;
  Taps rows_;
  Taps columns_;
};

// For a plane that is rotated counter-clockwise about its middle: returns for each pixel,
// row-major, the index of the nearest pixel of the original, or -1 outside of it. The same as
// torch.nn.functional.grid_sample(mode="nearest", align_corners=False) of torchvision's grid, in
// float32. Throws kInvalidArgument, with the name `who`, unless the plane has fewer than 2^31
// pixels and sides of 1 to kMostSide.
std::vector<std::int32_t> rotated_pixels(ImageSize size, double degrees,
                                         std::string_view who = "rotate");

// Convolves [planes, height, width] with `kernel` along rows, then along columns. Beyond the border
// the plane is reflected, without repeating its last value. `kernel` has an odd size; half of it,
// rounded down, must be less than both sides. `in` and `out` must not overlap.
void blur(const float* in, float* out, std::int64_t planes, ImageSize size,
          std::span<const float> kernel);

// plane = (plane - mean) / std
void normalise(std::span<float> plane, float mean, float std) noexcept;

}  // namespace dl::data
