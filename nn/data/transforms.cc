#include "nn/data/transforms.h"

#include <algorithm>

#include "core/base/error.h"

namespace dl::data {

void to_unit(std::span<const std::byte> pixels, std::span<float> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(std::to_integer<std::uint8_t>(pixels[i])) / 255.0F;
  }
}

BilinearResize::BilinearResize(ImageSize from, ImageSize to) : from_(from), to_(to) {
  DL_CHECK(from.height > 0 && from.width > 0 && to.height > 0 && to.width > 0, kInvalidArgument,
           "resize: got {}x{} to {}x{}, wanted positive sizes", from.height, from.width, to.height,
           to.width);
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

void normalise(std::span<float> plane, float mean, float std) noexcept {
  for (float& value : plane) value = (value - mean) / std;
}

}  // namespace dl::data
