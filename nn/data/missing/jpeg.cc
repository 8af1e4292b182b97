// Replaces readers/decoders/jpeg.cc and writers/jpeg.cc in a build without libjpeg.
#include "core/base/error.h"
#include "nn/data/readers/decoders/decoders.h"
#include "nn/data/writers/encoders.h"

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

std::vector<std::byte> encode_jpeg(const Rows& /*rows*/, std::string_view name) {
  throw_error(ErrorKind::kNotImplemented,
              "{}: dlrun was built without libjpeg (Debian: libjpeg-dev), and cannot write "
              "JPEG files",
              name);
}

}  // namespace dl::data
