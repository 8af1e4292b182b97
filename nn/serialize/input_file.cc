#include "nn/serialize/input_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace dl::nn {

InputFile::InputFile(const std::string& path) : path_(path) {
  fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_) throw_errno(errno, fmt::format("open {}", path));
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) throw_errno(errno, fmt::format("stat {}", path));
  DL_CHECK(S_ISREG(info.st_mode), kIo, "{} is not a regular file", path);
  size_ = static_cast<std::uint64_t>(info.st_size);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(errno, fmt::format("read {}", path_));
    DL_CHECK(got > 0, kIo, "{} became shorter while it was read", path_);
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

}  // namespace dl::nn
