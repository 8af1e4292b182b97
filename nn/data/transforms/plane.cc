#include "nn/data/transforms/plane.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/error.h"

namespace dl::data {
namespace {

// out = weight * row, or out += weight * row.
void add_row(const float* row, float weight, float* __restrict out, std::int64_t width,
             bool onto) noexcept {
  if (onto) {
    for (std::int64_t x = 0; x < width; ++x) out[x] += weight * row[x];
  } else {
    for (std::int64_t x = 0; x < width; ++x) out[x] = weight * row[x];
  }
}

bool has_sides(ImageSize size) noexcept {
  return size.height > 0 && size.width > 0 && size.height <= kMostSide && size.width <= kMostSide;
}

bool has_few_pixels(std::int64_t height, std::int64_t width) noexcept {
  return height * width <= std::numeric_limits<std::int32_t>::max();
}

void check_sizes(ImageSize from, ImageSize to, std::string_view who) {
  DL_CHECK(has_sides(from) && has_sides(to), kInvalidArgument,
           "{}: got {}x{} to {}x{}, wanted 1 to {} pixels a side", who, from.height, from.width,
           to.height, to.width, kMostSide);
  DL_CHECK(has_few_pixels(from.height, to.width), kInvalidArgument,
           "{}: got {}x{} to {}x{}, wanted fewer than 2^31 pixels in {}x{}", who, from.height,
           from.width, to.height, to.width, from.height, to.width);
}

// Rounds a number below 2^22 to the nearest integer, ties to even: the sum has no bits for a
// fraction. std::nearbyint would be a function call without SSE 4.1.
float nearest(float x) noexcept {
  constexpr float kNoFraction = 12582912.0F;  // 1.5 * 2^23
  return (x + kNoFraction) - kNoFraction;
}

}  // namespace

void to_unit(std::span<const std::byte> pixels, std::span<float> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(std::to_integer<std::uint8_t>(pixels[i])) / 255.0F;
  }
}

BilinearResize::BilinearResize(ImageSize from, ImageSize to) : from_(from), to_(to) {
  check_sizes(from, to, "resize");
  rows_ = taps(from.height, to.height);
  columns_ = taps(from.width, to.width);
}

std::vector<BilinearResize::Tap> BilinearResize::taps(std::int64_t in, std::int64_t out) {
  std::vector<Tap> taps(static_cast<std::size_t>(out));
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = std::max(0.0F, scale * (static_cast<float>(i) + 0.5F) - 0.5F);
    const std::int64_t low = std::min(static_cast<std::int64_t>(at), in - 1);
    taps[static_cast<std::size_t>(i)] = {
        .low = low,
        .high = std::min(low + 1, in - 1),
        .high_weight = std::clamp(at - static_cast<float>(low), 0.0F, 1.0F)};
  }
  return taps;
}

void BilinearResize::operator()(std::span<const float> in, std::span<float> out) const noexcept {
  float* result = out.data();
  for (const Tap& row : rows_) {
    const float* const above = in.data() + row.low * from_.width;
    const float* const below = in.data() + row.high * from_.width;
    for (const Tap& column : columns_) {
      const float left = 1.0F - column.high_weight;
      const float top = left * above[column.low] + column.high_weight * above[column.high];
      const float bottom = left * below[column.low] + column.high_weight * below[column.high];
      *result++ = (1.0F - row.high_weight) * top + row.high_weight * bottom;
    }
  }
}

AntialiasedResize::AntialiasedResize(ImageSize from, ImageSize to, std::string_view who)
    : from_(from), to_(to) {
  check_sizes(from, to, who);
  rows_ = taps(from.height, to.height);
  columns_ = taps(from.width, to.width);
}

AntialiasedResize::Taps AntialiasedResize::taps(std::int64_t in, std::int64_t out) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const float support = std::max(scale, 1.0F);
  Taps taps{.first = {}, .count = {}, .weights = {}, .most = 0};
  taps.most = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  taps.weights.resize(static_cast<std::size_t>(out * taps.most));
  for (std::int64_t i = 0; i < out; ++i) {
    const float center = scale * (static_cast<float>(i) + 0.5F);
    // NOLINTBEGIN(bugprone-incorrect-roundings): PyTorch's bounds
    const auto first =
        std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5F), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5F), in);
    // NOLINTEND(bugprone-incorrect-roundings)
    const std::int64_t count = std::clamp<std::int64_t>(end - first, 0, taps.most);
    float* const weights = taps.weights.data() + i * taps.most;
    float sum = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      const float distance = (static_cast<float>(j + first) - center + 0.5F) / support;
      weights[j] = std::max(0.0F, 1.0F - std::abs(distance));
      sum += weights[j];
    }
    for (std::int64_t j = 0; j < count; ++j) weights[j] /= sum;
    taps.first.push_back(first);
    taps.count.push_back(count);
  }
  return taps;
}

void AntialiasedResize::operator()(const float* in, float* out, std::int64_t planes) const {
  std::vector<float> narrow(static_cast<std::size_t>(from_.height * to_.width));
  for (std::int64_t p = 0; p < planes; ++p) {
    const float* const plane = in + p * from_.height * from_.width;
    for (std::int64_t y = 0; y < from_.height; ++y) {
      const float* const row = plane + y * from_.width;
      float* const result = narrow.data() + y * to_.width;
      for (std::int64_t x = 0; x < to_.width; ++x) {
        const auto at = static_cast<std::size_t>(x);
        const float* const weights = columns_.weights.data() + x * columns_.most;
        const float* const first = row + columns_.first[at];
        float sum = 0;
        for (std::int64_t j = 0; j < columns_.count[at]; ++j) sum += weights[j] * first[j];
        result[x] = sum;
      }
    }
    for (std::int64_t y = 0; y < to_.height; ++y) {
      const auto at = static_cast<std::size_t>(y);
      const float* const weights = rows_.weights.data() + y * rows_.most;
      const float* row = narrow.data() + rows_.first[at] * to_.width;
      float* const result = out + (p * to_.height + y) * to_.width;
      add_row(row, weights[0], result, to_.width, /*onto=*/false);
      for (std::int64_t j = 1; j < rows_.count[at]; ++j) {
        add_row(row += to_.width, weights[j], result, to_.width, /*onto=*/true);
      }
    }
  }
}

std::vector<std::int32_t> rotated_pixels(ImageSize size, double degrees, std::string_view who) {
  DL_CHECK(has_sides(size) && has_few_pixels(size.height, size.width), kInvalidArgument,
           "{}: got a plane of {}x{}, wanted 1 to {} pixels a side and fewer than 2^31", who,
           size.height, size.width, kMostSide);
  constexpr double kRadians = 0.017453292519943295;
  const auto cosine = static_cast<float>(std::cos(degrees * kRadians));
  const auto sine = static_cast<float>(std::sin(degrees * kRadians));
  const auto h = static_cast<float>(size.height);
  const auto w = static_cast<float>(size.width);
  // grid_sample() takes coordinates in [-1, 1]; each is x times the first number plus y times the
  // second.
  const float to_x[] = {cosine / (0.5F * w), -sine / (0.5F * w)};
  const float to_y[] = {sine / (0.5F * h), cosine / (0.5F * h)};
  std::vector<std::int32_t> pixels(static_cast<std::size_t>(size.height * size.width));
  std::int32_t* pixel = pixels.data();
  for (std::int64_t i = 0; i < size.height; ++i) {
    const float y = static_cast<float>(i) - 0.5F * h + 0.5F;
    for (std::int64_t j = 0; j < size.width; ++j) {
      const float x = static_cast<float>(j) - 0.5F * w + 0.5F;
      const float column = nearest((x * to_x[0] + y * to_x[1] + 1.0F) * (0.5F * w) - 0.5F);
      const float row = nearest((x * to_y[0] + y * to_y[1] + 1.0F) * (0.5F * h) - 0.5F);
      const bool inside = column >= 0 && column < w && row >= 0 && row < h;
      *pixel++ = inside ? static_cast<std::int32_t>(row) * static_cast<std::int32_t>(size.width) +
                              static_cast<std::int32_t>(column)
                        : -1;
    }
  }
  return pixels;
}

void blur(const float* in, float* out, std::int64_t planes, ImageSize size,
          std::span<const float> kernel) {
  const auto radius = static_cast<std::int64_t>(kernel.size() / 2);
  const auto [height, width] = size;
  std::vector<float> padded(static_cast<std::size_t>(width + 2 * radius));
  std::vector<float> rows(static_cast<std::size_t>(height * width));
  const auto reflect = [](std::int64_t i, std::int64_t n) {
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  };
  for (std::int64_t p = 0; p < planes; ++p) {
    const float* const plane = in + p * height * width;
    for (std::int64_t y = 0; y < height; ++y) {
      const float* const row = plane + y * width;
      std::copy_n(row, width, padded.begin() + radius);
      for (std::int64_t i = 0; i < radius; ++i) {
        padded[static_cast<std::size_t>(i)] = row[radius - i];
        padded[static_cast<std::size_t>(radius + width + i)] = row[width - 2 - i];
      }
      for (std::size_t k = 0; k < kernel.size(); ++k) {
        add_row(padded.data() + k, kernel[k], rows.data() + y * width, width, k > 0);
      }
    }
    for (std::int64_t y = 0; y < height; ++y) {
      float* const result = out + (p * height + y) * width;
      for (std::size_t k = 0; k < kernel.size(); ++k) {
        const std::int64_t from = reflect(y + static_cast<std::int64_t>(k) - radius, height);
        add_row(rows.data() + from * width, kernel[k], result, width, k > 0);
      }
    }
  }
}

void normalise(std::span<float> plane, float mean, float std) noexcept {
  for (float& value : plane) value = (value - mean) / std;
}

}  // namespace dl::data
