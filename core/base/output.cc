#include "core/base/output.h"

#include <cerrno>

#include "core/base/error.h"

namespace dl {

void require_written(std::FILE* file, std::string_view name) {
  if (std::fflush(file) != 0) throw_errno(errno, fmt::format("write to {}", name));
  DL_CHECK(std::ferror(file) == 0, kIo, "write to {}: not all of it could be written", name);
}

}  // namespace dl
