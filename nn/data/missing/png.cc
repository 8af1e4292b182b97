// Replaces readers/decoders/png.cc and writers/png.cc in a build without libpng.
#include "core/base/error.h"
#include "nn/data/readers/decoders/decoders.h"
#include "nn/data/writers/encoders.h"

namespace dl::data {

bool can_read_png() noexcept {
  return false;
}

Picture decode_png(std::span<const std::byte> /*bytes*/, std::string_view name,
                   PictureLimits /*limits*/) {
  throw_error(ErrorKind::kNotImplemented,
              "{} is a PNG file, and dlrun was built without libpng (Debian: libpng-dev)", name);
}

std::vector<std::byte> encode_png(const Rows& /*rows*/, std::string_view name) {
  throw_error(ErrorKind::kNotImplemented,
              "{}: dlrun was built without libpng (Debian: libpng-dev), and cannot write PNG files",
              name);
}

}  // namespace dl::data
