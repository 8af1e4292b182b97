// What makes network inputs of image bytes. Plain loops on the caller's memory and thread: they run
// inside loader threads, which open no parallel region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dl::data {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) noexcept = default;
};

// Grey values 0 ... 255 as floats 0 ... 1. Sizes must be equal.
void to_unit(std::span<const std::byte> pixels, std::span<float> out) noexcept;

// Bilinear interpolation of one plane to another size: torch.nn.functional.interpolate(mode=
// "bilinear", align_corners=False, antialias=False). Output pixel (y, x) lies at
// ((y + 0.5) * in/out - 0.5, ...) of the input, clamped to its border. The taps are computed once;
// an object may be used from several threads.
class BilinearResize {
 public:
  // Throws kInvalidArgument unless all sizes are positive.
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

// plane = (plane - mean) / std
void normalise(std::span<float> plane, float mean, float std) noexcept;

}  // namespace dl::data
