// Replaces jpeg.cc in a build without libjpeg.
#include "core/base/error.h"
#include "nn/data/writers/encoders.h"

namespace dl::data {

std::vector<std::byte> encode_jpeg(const Rows& /*rows*/, std::string_view name) {
  throw_error(ErrorKind::kNotImplemented,
              "{}: dlrun was built without libjpeg (Debian: libjpeg-dev), and cannot write "
              "JPEG files",
              name);
}

}  // namespace dl::data
