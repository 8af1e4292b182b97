// The decoders behind picture.h, one per library. A build without the library has a stand-in that
// throws kNotImplemented.
#pragma once

#include "nn/data/readers/picture.h"

namespace dl::data {

// Both throw kParse for a damaged or too large file, naming it. decode_jpeg() throws
// kNotImplemented for a kind of JPEG that libjpeg does not read. It accepts files for which libjpeg
// only warns, except truncated ones.
Picture decode_jpeg(std::span<const std::byte> bytes, std::string_view name, PictureLimits limits);
Picture decode_png(std::span<const std::byte> bytes, std::string_view name, PictureLimits limits);

// Throws kParse unless the sizes are positive and within the limits.
void check_size(std::int64_t height, std::int64_t width, std::string_view name,
                PictureLimits limits);
// Allocates a black picture. Throws as check_size() does.
Picture picture_of(std::int64_t height, std::int64_t width, std::string_view name,
                   PictureLimits limits);
// Copies one row of interleaved RGB pixels (3 * width bytes) into row `y` of the three planes.
void put_row(const unsigned char* row, std::int64_t y, Picture& picture) noexcept;
// Counts a picture that was read with warnings, and logs the first one of the process.
void count_warned(std::string_view name, std::string_view warning);

}  // namespace dl::data
