// Replaces jpeg.cc in a build without libjpeg.
#include "core/base/error.h"
#include "nn/data/readers/decoders/decoders.h"

namespace dl::data {

bool can_read_jpeg() noexcept {
  return false;
}

Picture decode_jpeg(std::span<const std::byte> /*bytes*/, std::string_view name,
                    PictureLimits /*limits*/) {
  throw_error(ErrorKind::kNotImplemented,
              "{} is a JPEG file, and dlrun was built without libjpeg (Debian: "
              "libjpeg-dev)",
              name);
}

}  // namespace dl::data
