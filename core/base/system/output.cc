#include "core/base/system/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace dl {

void require_written(std::FILE* file, std::string_view name) {
  if (std::fflush(file) != 0) throw_errno(errno, fmt::format("write to {}", name));
  DL_CHECK(std::ferror(file) == 0, kIo, "write to {}: not all of it could be written", name);
}

void write_error(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

void open_missing_standard_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", O_RDONLY);  // takes the lowest number
    if (opened > STDERR_FILENO) ::close(opened);       // another thread was faster
  }
}

}  // namespace dl
