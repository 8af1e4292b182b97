#include "core/base/system/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/system/unique_fd.h"

namespace dl {

std::optional<std::string> small_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::array<char, 8192> text;
  ssize_t n = 0;
  do {
    n = ::read(fd.get(), text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return std::nullopt;
  return std::string(text.data(), static_cast<std::size_t>(n));
}

std::optional<std::string> first_line(const std::string& path) {
  std::optional<std::string> text = small_file(path);
  if (!text || text->empty()) return std::nullopt;
  text->resize(std::min(text->find('\n'), text->size()));
  return text;
}

}  // namespace dl
