// Replaces png.cc in a build without libpng.
#include "core/base/error.h"
#include "nn/data/writers/encoders.h"

namespace dl::data {

std::vector<std::byte> encode_png(const Rows& /*rows*/, std::string_view name) {
  throw_error(ErrorKind::kNotImplemented,
              "{}: dlrun was built without libpng (Debian: libpng-dev), and cannot write PNG files",
              name);
}

}  // namespace dl::data
