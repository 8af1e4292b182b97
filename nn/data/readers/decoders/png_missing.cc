// Replaces png.cc in a build without libpng.
#include "core/base/error.h"
#include "nn/data/readers/decoders/decoders.h"

namespace dl::data {

bool can_read_png() noexcept {
  return false;
}

Picture decode_png(std::span<const std::byte> /*bytes*/, std::string_view name,
                   PictureLimits /*limits*/) {
  throw_error(ErrorKind::kNotImplemented,
              "{} is a PNG file, and dlrun was built without libpng (Debian: libpng-dev)", name);
}

}  // namespace dl::data
