#include "core/base/limits.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <limits>

namespace dl {
namespace {

std::string text_of_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  const std::string cure =
      limit.rlim_cur < limit.rlim_max
          ? fmt::format("`ulimit -n {}` is allowed", limit.rlim_max)
          : "it is the hard limit, which root raises (limits.conf, LimitNOFILE=); fewer ranks on "
            "this node need less";
  return fmt::format("; the limit (ulimit -n) is {}, wanted more: {}", limit.rlim_cur, cure);
}

}  // namespace

std::uint64_t file_size_limit() noexcept {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : std::numeric_limits<std::uint64_t>::max();
}

bool is_out_of_files(int error) noexcept {
  return error == EMFILE || error == ENFILE;
}

std::string system_error_text(int error) {
  std::string text = std::strerror(error);
  if (error == EMFILE) return text + text_of_open_files();
  if (error == ENFILE) {
    return text + "; the whole system's limit (sysctl fs.file-max) is reached, wanted more";
  }
  if (error == EFBIG && file_size_limit() != std::numeric_limits<std::uint64_t>::max()) {
    return text + fmt::format("; the limit of a file (ulimit -f) is {} bytes, wanted more",
                              file_size_limit());
  }
  return text;
}

}  // namespace dl
