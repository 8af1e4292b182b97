// The encoders behind save_image(), one per library. A build without the library has a stand-in
// that throws kNotImplemented. Texts name the file as `name`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dl::data {

// Pixels uint8 [height, width, channels], row-major; 3 channels, or 4 for PNG.
struct Rows {
  const std::uint8_t* pixels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;
};

std::vector<std::byte> encode_png(const Rows& rows, std::string_view name);
// As Pillow's save() by default: quality 75, colours at half the width and height.
std::vector<std::byte> encode_jpeg(const Rows& rows, std::string_view name);

}  // namespace dl::data
