// Transforms that change colours.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/data/transforms/image.h"
#include "nn/data/transforms/transforms.h"

namespace dl::data::transforms {

using detail::checked_image;
using detail::size_of_image;

namespace {

// Images of the same size, one after another in memory; each has its channels as planes.
struct Images {
  std::int64_t count;
  std::int64_t channels;
  std::int64_t pixels;

  std::int64_t elements() const noexcept { return channels * pixels; }
};

Images images_of(const Tensor& image) {
  const std::int64_t channels = image.dim() < 3 ? 1 : image.size(-3);
  return {.count = detail::planes_of(image) / channels,
          .channels = channels,
          .pixels = image.size(-1) * image.size(-2)};
}

template <typename T>
constexpr float kMost = std::is_same_v<T, float> ? 1.0F : 255.0F;

// Calls work(T*, T*) with the elements of both, which have one dtype.
template <typename Work>
void with_elements(const Tensor& in, const Tensor& out, const Work& work) {
  if (in.dtype() == DType::kF32) {
    work(in.data<float>(), out.data<float>());
  } else {
    work(in.data<std::uint8_t>(), out.data<std::uint8_t>());
  }
}

// Brightness of pixel i; `in` has 1 or 3 planes.
template <typename T>
T grey_of(const T* in, const Images& images, std::int64_t i) {
  if (images.channels == 1) return in[i];
  const auto plane = [&](std::int64_t c) { return static_cast<float>(in[c * images.pixels + i]); };
  return static_cast<T>(0.2989F * plane(0) + 0.587F * plane(1) + 0.114F * plane(2));
}

// ratio a + (1 - ratio) b in the dtype's range.
template <typename T>
T blended(T a, float b, double ratio) {
  const float sum =
      static_cast<float>(ratio) * static_cast<float>(a) + static_cast<float>(1 - ratio) * b;
  return static_cast<T>(std::clamp(sum, 0.0F, kMost<T>));
}

void check_factor(double factor, std::string_view name) {
  DL_CHECK(factor >= 0 && factor <= detail::kMostFactor, kInvalidArgument,
           "{}: the factor is {}, wanted a number from 0 to {}", name, factor, detail::kMostFactor);
}

Tensor checked_colors(const Tensor& image, std::string_view name) {
  detail::check_colors(image, name);
  return checked_image(image, name);
}

struct Rgb {
  float r;
  float g;
  float b;
};

// The hue is turned in HSV, as torchvision does it: each step is rounded to float32 like there.
Rgb with_hue(Rgb in, float turn) {
  const float most = std::max({in.r, in.g, in.b});
  const float least = std::min({in.r, in.g, in.b});
  const float range = most - least;
  const bool is_grey = most == least;
  const float s = range / (is_grey ? 1.0F : most);
  const float divisor = is_grey ? 1.0F : range;
  const float rc = (most - in.r) / divisor;
  const float gc = (most - in.g) / divisor;
  const float bc = (most - in.b) / divisor;
  const float sixths = most == in.r ? bc - gc : most == in.g ? 2.0F + rc - bc : 4.0F + gc - rc;
  float h = std::fmod(sixths / 6.0F + 1.0F, 1.0F) + turn;
  h = std::fmod(h, 1.0F);
  if (h < 0) h += 1.0F;
  if (std::isnan(h)) return {h, h, h};  // of a NaN or infinity

  const float sector = std::floor(h * 6.0F);
  const float f = h * 6.0F - sector;
  const auto unit = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
  const float v = most;
  const float p = unit(v * (1.0F - s));
  const float q = unit(v * (1.0F - s * f));
  const float t = unit(v * (1.0F - s * (1.0F - f)));
  switch (static_cast<int>(sector) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

}  // namespace

void detail::check_colors(const Tensor& image, std::string_view name) {
  check_image(image, name);
  const std::int64_t channels = image.dim() < 3 ? 1 : image.size(-3);
  DL_CHECK(channels == 1 || channels == 3, kShape,
           "{}: got an image {} of {} channels, wanted 1 or 3", name, image.sizes().str(),
           channels);
}

Tensor rgb_to_grayscale(const Tensor& image, std::int64_t num_output_channels) {
  constexpr std::string_view kName = "rgb_to_grayscale";
  DL_CHECK(num_output_channels == 1 || num_output_channels == 3, kInvalidArgument,
           "{}: num_output_channels is {}, wanted 1 or 3", kName, num_output_channels);
  const Tensor in = checked_colors(image, kName);
  const Images images = images_of(in);
  Shape shape = in.sizes();
  if (shape.size() < 3) shape.insert(0, 1);
  shape[shape.size() - 3] = num_output_channels;
  const Tensor out = empty(shape, {.dtype = in.dtype()});
  with_elements(in, out, [&]<typename T>(const T* from, T* to) {
    for (std::int64_t n = 0; n < images.count; ++n, from += images.elements()) {
      for (std::int64_t c = 0; c < num_output_channels; ++c) {
        for (std::int64_t i = 0; i < images.pixels; ++i) *to++ = grey_of(from, images, i);
      }
    }
  });
  return image.dim() < 3 && num_output_channels == 1 ? out.view(image.sizes()) : out;
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  constexpr std::string_view kName = "adjust_brightness";
  check_factor(factor, kName);
  const Tensor in = checked_colors(image, kName);
  const Tensor out = empty(in.sizes(), {.dtype = in.dtype()});
  with_elements(in, out, [&]<typename T>(const T* from, T* to) {
    for (std::int64_t i = 0; i < in.numel(); ++i) to[i] = blended(from[i], 0.0F, factor);
  });
  return out;
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  constexpr std::string_view kName = "adjust_contrast";
  check_factor(factor, kName);
  const Tensor in = checked_colors(image, kName);
  const Images images = images_of(in);
  const Tensor out = empty(in.sizes(), {.dtype = in.dtype()});
  with_elements(in, out, [&]<typename T>(const T* from, T* to) {
    for (std::int64_t n = 0; n < images.count; ++n) {
      double sum = 0;
      for (std::int64_t i = 0; i < images.pixels; ++i) {
        sum += static_cast<double>(grey_of(from, images, i));
      }
      const auto mean = static_cast<float>(sum / static_cast<double>(images.pixels));
      for (std::int64_t i = 0; i < images.elements(); ++i) {
        *to++ = blended(*from++, mean, factor);
      }
    }
  });
  return out;
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  constexpr std::string_view kName = "adjust_saturation";
  check_factor(factor, kName);
  const Tensor in = checked_colors(image, kName);
  const Images images = images_of(in);
  if (images.channels == 1) return detail::unchanged(image);
  const Tensor out = empty(in.sizes(), {.dtype = in.dtype()});
  with_elements(in, out, [&]<typename T>(const T* from, T* to) {
    for (std::int64_t n = 0; n < images.count; ++n, from += images.elements()) {
      for (std::int64_t i = 0; i < images.elements(); ++i) {
        const T grey = grey_of(from, images, i % images.pixels);
        *to++ = blended(from[i], static_cast<float>(grey), factor);
      }
    }
  });
  return out;
}

Tensor adjust_hue(const Tensor& image, double factor) {
  constexpr std::string_view kName = "adjust_hue";
  DL_CHECK(factor >= -0.5 && factor <= 0.5, kInvalidArgument,
           "{}: the factor is {}, wanted -0.5 to 0.5", kName, factor);
  const Tensor in = checked_colors(image, kName);
  const Images images = images_of(in);
  if (images.channels == 1) return detail::unchanged(image);
  const Tensor out = empty(in.sizes(), {.dtype = in.dtype()});
  const auto turn = static_cast<float>(factor);
  with_elements(in, out, [&]<typename T>(const T* from, T* to) {
    constexpr bool kFloat = std::is_same_v<T, float>;
    const auto load = [](T x) {
      return kFloat ? static_cast<float>(x) : static_cast<float>(x) / 255.0F;
    };
    // The factor of bytes is 255.999: 1 becomes 255, and each byte has an equal part of [0, 1].
    const auto store = [](float x) { return static_cast<T>(kFloat ? x : x * 255.999F); };
    for (std::int64_t n = 0; n < images.count; ++n) {
      for (std::int64_t i = 0; i < images.pixels; ++i) {
        const std::int64_t green = i + images.pixels;
        const std::int64_t blue = green + images.pixels;
        const Rgb turned = with_hue({load(from[i]), load(from[green]), load(from[blue])}, turn);
        to[i] = store(turned.r);
        to[green] = store(turned.g);
        to[blue] = store(turned.b);
      }
      from += images.elements();
      to += images.elements();
    }
  });
  return out;
}

Grayscale::Grayscale(std::int64_t num_output_channels) : channels_(num_output_channels) {
  DL_CHECK(channels_ == 1 || channels_ == 3, kInvalidArgument,
           "Grayscale: num_output_channels is {}, wanted 1 or 3", channels_);
}

Tensor Grayscale::operator()(const Tensor& image) const {
  return rgb_to_grayscale(image, channels_);
}

}  // namespace dl::data::transforms
