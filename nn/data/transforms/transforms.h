// torchvision's transforms for image tensors [..., height, width] on the CPU.
//
//   namespace tf = dl::data::transforms;
//   tf::Compose augment({tf::Resize(255), tf::CenterCrop(224), tf::RandomHorizontalFlip(),
//                        tf::ToTensor(), tf::Normalize({0.5, 0.5, 0.5}, {0.2, 0.2, 0.2})});
//   const Tensor input = augment(image);  // uint8 [3, h, w] to float32 [3, 224, 224]
//
// A transform is any function of an image; each class below is one. It returns a new tensor, a view
// of the image (crops), or the image itself if there is nothing to do, and autograd does not record
// it. Images are float32, or uint8 with 0 to 255, and keep their dtype except in ToTensor. For
// uint8, resizing and blurring compute in float32 and round. Random transforms draw the same
// numbers as torchvision's, from sample_generator() (worker.h). A batch of no images, [0, 3, 5, 5],
// gives a batch of no images of the result's shape. A wrong image throws kShape, kDType or
// kInvalidArgument, and a wrong option throws kInvalidArgument; the text begins with the
// transform's name. Sides, paddings and results have at most kMostSide pixels, and numbers are
// finite.
//
// Thread-safety: transforms may be called from any thread; a call runs on that thread alone.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/data/transforms/plane.h"

namespace dl::data {

using Transform = std::function<Tensor(const Tensor& image)>;

}  // namespace dl::data

namespace dl::data::transforms {

// Applies transforms one after the other.
class Compose {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a list in braces is a Compose
  Compose(std::initializer_list<Transform> transforms)
      : Compose(std::vector<Transform>(transforms)) {}
  explicit Compose(std::vector<Transform> transforms);
  Tensor operator()(const Tensor& image) const;

 private:
  std::vector<Transform> transforms_;
};

// Resizes, bilinear with antialias. `shorter_side`: the shorter side gets this length, in pixels,
// and the other side keeps the proportion.
class Resize {
 public:
  explicit Resize(std::int64_t shorter_side);
  explicit Resize(ImageSize size);
  Tensor operator()(const Tensor& image) const;

 private:
  std::optional<std::int64_t> shorter_side_;
  ImageSize size_;
};

// Cuts out the middle: a square of `side` pixels, or `size`. Pads a smaller image with 0 first.
class CenterCrop {
 public:
  explicit CenterCrop(std::int64_t side) : CenterCrop(ImageSize{side, side}) {}
  explicit CenterCrop(ImageSize size);
  Tensor operator()(const Tensor& image) const;

 private:
  ImageSize size_;
};

enum class PaddingMode : std::uint8_t {
  kConstant,
  kEdge,       // repeats the last value
  kReflect,    // mirrors without repeating the last value
  kSymmetric,  // mirrors and repeats the last value
};

// Numbers of pixels; a negative number removes pixels.
struct Padding {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
};

// The meaning of two numbers, {4, 2}, as in torchvision.
struct PaddingPair {
  std::int64_t left_and_right = 0;
  std::int64_t top_and_bottom = 0;
};

struct PadOptions {
  double fill = 0;  // the value for kConstant; uint8 clamps it to 0 to 255 and refuses NaN
  PaddingMode mode = PaddingMode::kConstant;
};

// Pads the sides of an image, or crops them. Throws kShape if kReflect or kSymmetric need more
// pixels than the image has, or if no pixels are left.
class Pad {
 public:
  explicit Pad(std::int64_t all_sides, PadOptions options = {})
      : Pad(Padding{all_sides, all_sides, all_sides, all_sides}, options) {}
  explicit Pad(PaddingPair both, PadOptions options = {})
      : Pad(Padding{both.left_and_right, both.top_and_bottom, both.left_and_right,
                    both.top_and_bottom},
            options) {}
  // A template, so that {4, 2} is a PaddingPair.
  template <std::same_as<Padding> P = Padding>
  explicit Pad(P padding, PadOptions options = {}) : padding_(padding), options_(options) {
    check();
  }
  Tensor operator()(const Tensor& image) const;

 private:
  void check() const;

  Padding padding_;
  PadOptions options_;
};

// Mirrors left and right with probability p.
class RandomHorizontalFlip {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  Tensor operator()(const Tensor& image) const;

 private:
  double p_;
};

// Turns the image upside down with probability p.
class RandomVerticalFlip {
 public:
  explicit RandomVerticalFlip(double p = 0.5);
  Tensor operator()(const Tensor& image) const;

 private:
  double p_;
};

// Padding as an option: none, one number for all sides, one for left and right and one for top and
// bottom, or a number for each side.
class PaddingOption {
 public:
  PaddingOption() = default;
  // NOLINTBEGIN(google-explicit-constructor): {.padding = 4}
  PaddingOption(std::int64_t all_sides) : sides_({all_sides, all_sides, all_sides, all_sides}) {}
  PaddingOption(std::int64_t left_and_right, std::int64_t top_and_bottom)
      : sides_({left_and_right, top_and_bottom, left_and_right, top_and_bottom}) {}
  PaddingOption(Padding sides) : sides_(sides) {}
  // NOLINTEND(google-explicit-constructor)
  const std::optional<Padding>& sides() const noexcept { return sides_; }

 private:
  std::optional<Padding> sides_{};
};

struct RandomCropOptions {
  PaddingOption padding{};     // added before the crop
  bool pad_if_needed = false;  // pad a smaller image on both sides; else it throws kShape
  PadOptions pad{};
};

// Cuts out a part of the given size at a random place.
class RandomCrop {
 public:
  explicit RandomCrop(std::int64_t side, RandomCropOptions options = {})
      : RandomCrop(ImageSize{side, side}, options) {}
  explicit RandomCrop(ImageSize size, RandomCropOptions options = {});
  Tensor operator()(const Tensor& image) const;

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

struct RandomResizedCropOptions {
  double min_scale = 0.08;  // of the image's area
  double max_scale = 1;
  double min_ratio = 3.0 / 4;  // width over height
  double max_ratio = 4.0 / 3;
};

// Cuts out a part of random area and ratio at a random place, and resizes it to the given size.
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(std::int64_t side, RandomResizedCropOptions options = {})
      : RandomResizedCrop(ImageSize{side, side}, options) {}
  explicit RandomResizedCrop(ImageSize size, RandomResizedCropOptions options = {});
  Tensor operator()(const Tensor& image) const;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

struct RandomRotationOptions {
  double fill = 0;
};

// Rotates counter-clockwise about the middle by a random angle in degrees, from -degrees to
// degrees; takes the nearest pixel, and `fill` outside of the image.
class RandomRotation {
 public:
  explicit RandomRotation(double degrees, RandomRotationOptions options = {});
  RandomRotation(double min_degrees, double max_degrees, RandomRotationOptions options = {});
  Tensor operator()(const Tensor& image) const;

 private:
  double min_;
  double max_;
  RandomRotationOptions options_;
};

struct RandomErasingOptions {
  double min_scale = 0.02;  // of the image's area
  double max_scale = 0.33;
  double min_ratio = 0.3;  // height over width
  double max_ratio = 3.3;
  std::vector<float> value{0};  // one for all channels, or one for each
  bool random = false;          // instead of `value` normal numbers; for float32 images
};

// Overwrites a rectangle of random area, ratio and place with probability p (Zhong et al. 2017), in
// a copy of the image [channels, height, width].
class RandomErasing {
 public:
  explicit RandomErasing(double p = 0.5, RandomErasingOptions options = {});
  Tensor operator()(const Tensor& image) const;

 private:
  double p_;
  RandomErasingOptions options_;
};

// A range of random factors: an amount around the factor that changes nothing, or {min, max}.
class JitterRange {
 public:
  // NOLINTBEGIN(google-explicit-constructor): {.brightness = 0.4}
  JitterRange(double amount) : first_(amount), is_amount_(true) {}
  JitterRange(double min, double max) : first_(min), max_(max) {}
  // NOLINTEND(google-explicit-constructor)

  struct Bounds {
    double min;
    double max;
  };
  // `neutral` changes nothing. nullopt: the range has no other factor. Throws kInvalidArgument for
  // a negative amount, and unless least <= min <= max <= most; `name` is the option's.
  std::optional<Bounds> bounds(double neutral, double least, double most, const char* name) const;

 private:
  double first_;
  double max_ = 0;
  bool is_amount_ = false;
};

struct ColorJitterOptions {
  JitterRange brightness = 0;
  JitterRange contrast = 0;
  JitterRange saturation = 0;
  JitterRange hue = 0;  // in turns of the colour circle: at most 0.5
};

// Changes brightness, contrast, saturation and hue by random factors, in a random order, with the
// functions below.
class ColorJitter {
 public:
  explicit ColorJitter(ColorJitterOptions options = {});
  Tensor operator()(const Tensor& image) const;

 private:
  std::optional<JitterRange::Bounds> ranges_[4];
};

// The brightness of an image with 1 or 3 channels, as 1 channel or 3 equal ones.
class Grayscale {
 public:
  explicit Grayscale(std::int64_t num_output_channels = 1);
  Tensor operator()(const Tensor& image) const;

 private:
  std::int64_t channels_;
};

// Grayscale with the image's channels with probability p.
class RandomGrayscale {
 public:
  explicit RandomGrayscale(double p = 0.1);
  Tensor operator()(const Tensor& image) const;

 private:
  double p_;
};

struct GaussianBlurOptions {
  double min_sigma = 0.1;
  double max_sigma = 2.0;
};

// Blurs with a Gaussian kernel of a random sigma, in pixels, and reflects the image at its border.
// Throws kShape unless both sides of the image are longer than kernel_size / 2.
class GaussianBlur {
 public:
  explicit GaussianBlur(std::int64_t kernel_size, GaussianBlurOptions options = {});
  Tensor operator()(const Tensor& image) const;

 private:
  std::int64_t kernel_size_;
  GaussianBlurOptions options_;
};

// Converts uint8 with 0 to 255 to float32 with 0 to 1; returns float32 unchanged. Images are
// already [channels, height, width], so it permutes nothing.
class ToTensor {
 public:
  Tensor operator()(const Tensor& image) const;
};

// Computes (x - mean) / std for each channel of a float32 image [..., channels, height, width]. A
// single mean and std serve all channels. A std may be negative, as in torchvision, but not 0.
class Normalize {
 public:
  Normalize(std::vector<float> mean, std::vector<float> std);
  Tensor operator()(const Tensor& image) const;

 private:
  std::vector<float> mean_;
  std::vector<float> std_;
};

// For images with 1 or 3 channels: 0.2989 red + 0.587 green + 0.114 blue, in 1 or 3 channels.
Tensor rgb_to_grayscale(const Tensor& image, std::int64_t num_output_channels = 1);
// factor image + (1 - factor) other, within the dtype's range (0 to 1 for float32): `other` is
// black, the image's mean brightness, or each pixel's brightness. uint8 is rounded down. Throws
// kInvalidArgument unless the factor is 0 to 1e30.
Tensor adjust_brightness(const Tensor& image, double factor);
Tensor adjust_contrast(const Tensor& image, double factor);
Tensor adjust_saturation(const Tensor& image, double factor);
// Turns the hue by `factor` of the colour circle. Throws kInvalidArgument unless it is -0.5 to 0.5.
Tensor adjust_hue(const Tensor& image, double factor);

// Rotates counter-clockwise about the middle, as RandomRotation does with its random angle. Throws
// kInvalidArgument unless the angle is finite.
Tensor rotate(const Tensor& image, double degrees, double fill = 0);
// Blurs as GaussianBlur does with its random sigma. Throws kInvalidArgument unless kernel_size is
// odd and positive, and sigma finite and more than 0.
Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma);

}  // namespace dl::data::transforms
