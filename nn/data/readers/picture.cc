#include "nn/data/readers/picture.h"

#include <atomic>
#include <cstring>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "nn/data/readers/decoders/decoders.h"
#include "nn/data/readers/file.h"

namespace dl::data {
namespace {

constinit std::atomic<std::int64_t> warned_pictures{0};

}  // namespace

std::int64_t pictures_with_warnings() noexcept {
  return warned_pictures.load();
}

void count_warned(std::string_view name, std::string_view warning) {
  if (warned_pictures.fetch_add(1) > 0) return;
  log::warning(
      "{}: libjpeg warns \"{}\"; the picture is used, with the pixels that Pillow gives. Further "
      "such files are counted in data::pictures_with_warnings(), not named",
      name, warning);
}

void check_size(std::int64_t height, std::int64_t width, std::string_view name,
                PictureLimits limits) {
  DL_CHECK(height > 0 && width > 0 && width <= limits.max_pixels / height, kParse,
           "{} announces {} x {} pixels, wanted 1 to {} in all", name, width, height,
           limits.max_pixels);
}

Picture picture_of(std::int64_t height, std::int64_t width, std::string_view name,
                   PictureLimits limits) {
  check_size(height, width, name, limits);
  return {.height = height,
          .width = width,
          .pixels = std::vector<std::byte>(3 * static_cast<std::size_t>(height * width))};
}

void put_row(const unsigned char* row, std::int64_t y, Picture& picture) noexcept {
  for (std::int64_t c = 0; c < 3; ++c) {
    std::byte* const out = picture.pixels.data() + (c * picture.height + y) * picture.width;
    for (std::int64_t x = 0; x < picture.width; ++x) out[x] = std::byte{row[3 * x + c]};
  }
}

Picture decode_picture(std::span<const std::byte> bytes, std::string_view name,
                       PictureLimits limits) {
  const auto begins = [&](std::string_view with) {
    return bytes.size() >= with.size() && std::memcmp(bytes.data(), with.data(), with.size()) == 0;
  };
  if (begins("\xff\xd8\xff")) return decode_jpeg(bytes, name, limits);
  if (begins("\x89PNG\r\n\x1a\n")) return decode_png(bytes, name, limits);
  throw_error(ErrorKind::kParse, "{} is neither a JPEG nor a PNG file", name);
}

Picture read_picture(const std::string& path, PictureLimits limits) {
  return decode_picture(read_file(path, limits.max_bytes), path, limits);
}

}  // namespace dl::data
