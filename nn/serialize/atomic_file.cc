#include "nn/serialize/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/base/error.h"

namespace dl::nn {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  // A device or a pipe would be gone, and a file in its place.
  struct stat about{};
  DL_CHECK(::stat(path_.c_str(), &about) != 0 || S_ISREG(about.st_mode), kIo,
           "write {}: it is there and is no regular file", path_);
  static std::atomic<unsigned> serial{0};
  temporary_ = fmt::format("{}.{}.{}.tmp", path_, ::getpid(), serial.fetch_add(1));
  fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd_) fail(errno, "create");
}

AtomicFile::~AtomicFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) fail(errno, "write to disk");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno, "replace");
  fd_.reset();
  // The new name is safe once the folder is.
  const UniqueFd folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) fail(errno, "write the folder of");
}

void AtomicFile::fail(int error, const char* what) {
  // Remove it now: an uncaught error does not run the destructor.
  if (fd_) ::unlink(temporary_.c_str());
  fd_.reset();
  throw_errno(error, fmt::format("{} {}", what, path_));
}

}  // namespace dl::nn
