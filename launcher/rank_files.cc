#include "launcher/rank_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

UniqueFd checked(int fd, const char* what) {
  if (fd < 0) throw_errno(errno, what);
  return UniqueFd(fd);
}

}  // namespace

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe for a rank's output");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

UniqueFd duplicate(int fd) {
  return checked(::fcntl(fd, F_DUPFD_CLOEXEC, 3), "dup");
}

UniqueFd open_null() {
  return checked(::open("/dev/null", O_RDWR | O_CLOEXEC), "open /dev/null");
}

UniqueFd open_empty_input(const char* null) {
  UniqueFd fd = checked(::open(null, O_RDONLY | O_CLOEXEC), fmt::format("open {}", null).c_str());
  struct stat about{};
  if (::fstat(fd.get(), &about) == 0 && S_ISCHR(about.st_mode)) return fd;
  return make_pipe().read;
}

UniqueFd stdin_for_rank() {
  const bool background = ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp();
  return background ? open_empty_input() : duplicate(STDIN_FILENO);
}

UniqueFd make_memory_file(const char* name) {
  return checked(::memfd_create(name, MFD_CLOEXEC), "memfd_create");
}

std::string path_of_descriptor(int fd) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), fd);
}

std::string log_path(const std::string& folder, int rank, const char* file) {
  const std::string own = fmt::format("{}/{}", folder, rank);
  std::error_code error;
  std::filesystem::create_directories(own, error);
  if (error) throw_errno(error.value(), fmt::format("--log-dir: create {}", own));
  return fmt::format("{}/{}", own, file);
}

UniqueFd create_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) throw_errno(errno, fmt::format("--log-dir: create {}", path));
  return UniqueFd(fd);
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_errno(errno, fmt::format("--log-dir: remove {}", path));
  }
}

std::string read_file(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  // A pipe that stands there must not hold up the end of the job.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return "";
  std::string text;
  char part[4096];
  while (text.size() < kMost) {
    const ssize_t n = ::read(fd.get(), part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  return text;
}

void require_descriptor(int highest) {
  rlimit limit{};
  const auto wanted = static_cast<rlim_t>(highest) + 1;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  DL_CHECK(limit.rlim_cur >= wanted, kIo,
           "the limit of open files is {} (ulimit -n), wanted at least {}", limit.rlim_cur, wanted);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace dl::launcher
