#include "core/base/system/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace dl {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Follows symbolic links of `path`; the target need not exist.
std::string target_of(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::string target = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    std::error_code error;
    const std::string next = std::filesystem::read_symlink(target, error);
    if (error) return target;  // not a link
    target = next.starts_with('/') ? next : fmt::format("{}/{}", folder_of(target), next);
  }
  throw_errno(ELOOP, fmt::format("write {}", path));
}

// A name in `target`'s folder that no file of any process has, within the file system's limit.
std::string temporary_beside(const std::string& target) {
  static std::atomic<unsigned> serial{0};
  const std::string end = fmt::format(".{}.{}.tmp", ::getpid(), serial.fetch_add(1));
  const std::size_t name = target.rfind('/') + 1;  // 0 without a slash
  return target.substr(0, name) + target.substr(name, NAME_MAX - end.size()) + end;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), target_(target_of(path_)) {
  DL_CHECK(!path_.empty(), kInvalidArgument, "write a file: it has no name");
  // Renaming would replace a device or a pipe by a file.
  struct stat about{};
  const bool is_there = ::stat(target_.c_str(), &about) == 0;
  DL_CHECK(!is_there || S_ISREG(about.st_mode), kIo, "write {}: it is there and is no regular file",
           path_);
  temporary_ = temporary_beside(target_);
  // A file without a name (O_TMPFILE) vanishes if the process is killed.
  if (::access("/proc/self/fd", X_OK) == 0) {
    fd_.reset(::open(folder_of(target_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  }
  if (!fd_) {
    fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    has_name_ = true;
  }
  if (!fd_) fail(errno, "create");
  constexpr mode_t kPermissions = 07777;
  if (is_there && ::fchmod(fd_.get(), about.st_mode & kPermissions) != 0) {
    fail(errno, "set the permissions of");
  }
}

AtomicFile::~AtomicFile() {
  if (fd_) remove();
}

void AtomicFile::remove() {
  if (has_name_) ::unlink(temporary_.c_str());
  fd_.reset();
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
  if (!has_name_) {
    const std::string file = fmt::format("/proc/self/fd/{}", fd_.get());
    if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail(errno, "give a name to");
    }
    has_name_ = true;
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno, "replace");
  fd_.reset();
  // The rename is durable once the folder is synced.
  const UniqueFd folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) fail(errno, "write the folder of");
}

void AtomicFile::fail(int error, const char* what) {
  // Remove it now: an uncaught error does not run the destructor.
  if (fd_) remove();
  throw_errno(error, fmt::format("{} {}", what, path_));
}

}  // namespace dl
