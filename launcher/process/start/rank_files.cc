#include "launcher/process/start/rank_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/error.h"
#include "core/base/system/output.h"

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

std::string write_file(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return fmt::format("create {}: {}", path, std::strerror(errno));
  const int error = write_all(fd.get(), text);
  return error == 0 ? "" : fmt::format("write {}: {}", path, std::strerror(error));
}

std::string read_file(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  // Non-blocking: if the path is a pipe, it must not block the end of the job.
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

int descriptors_for(int ranks, bool with_logs) {
  // Descriptors of dlrun and its event loop, and those that wait for the supervisor at one time.
  constexpr int kOwn = 96;
  // Two pipes, the lifeline, the flight recorder, the error file; two logs.
  const int each = with_logs ? 7 : 5;
  return kOwn + each * ranks;
}

int least_descriptor_limit(int wanted, int highest) {
  return std::max(wanted, highest + 1);
}

rlimit raise_descriptor_limit(int wanted, int ranks, int highest) {
  rlimit before{};
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) throw_errno(errno, "getrlimit(RLIMIT_NOFILE)");
  const auto least = static_cast<rlim_t>(least_descriptor_limit(wanted, highest));
  DL_CHECK(before.rlim_max >= least, kIo,
           "the limit of open files is {} (ulimit -n, the hard limit), wanted at least {} for {} "
           "rank{} on this node; root raises it (limits.conf, LimitNOFILE=)",
           before.rlim_max, least, ranks, ranks == 1 ? "" : "s");
  rlimit raised = before;
  raised.rlim_cur = before.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) throw_errno(errno, "setrlimit(RLIMIT_NOFILE)");
  return before;
}

}  // namespace dl::launcher
