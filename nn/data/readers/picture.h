// Picture: reads one image file: JPEG with libjpeg, PNG with libpng. A build without one of these
// libraries throws kNotImplemented for its files. Thread-safety: any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::data {

// Red, green and blue planes, as Pillow's convert("RGB") gives them: grey, CMYK and palette images
// become colours, and transparency is dropped. Samples of 16 bits keep their upper 8 bits; those of
// grey PNG files without transparency are limited to 255 instead.
struct Picture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::byte> pixels{};  // uint8 [3, height, width]
  // How many times libjpeg has warned, as of "extraneous bytes before marker"; the pixels are
  // Pillow's nonetheless.
  std::int64_t warnings = 0;
};

// Larger files and pictures are refused with kParse.
struct PictureLimits {
  std::int64_t max_pixels = 178'956'970;  // width * height; Pillow's limit: 512 MiB of colours
  std::size_t max_bytes = std::size_t{1} << 30;  // of the file
};

// Takes the format from the file's first bytes, not from its name. Throws kNotFound; kIo; kParse
// for a file that is damaged, truncated or too large; and kNotImplemented for a format that this
// build cannot read. Each text is one sentence that names the file.
Picture read_picture(const std::string& path, PictureLimits limits = {});
// Reads from memory instead of a file; `name` stands for the file in errors.
Picture decode_picture(std::span<const std::byte> bytes, std::string_view name,
                       PictureLimits limits = {});

// How many pictures this process has read with warnings. The log names the first one.
std::int64_t pictures_with_warnings() noexcept;

// Whether this build has libjpeg, or libpng.
bool can_read_jpeg() noexcept;
bool can_read_png() noexcept;

}  // namespace dl::data
