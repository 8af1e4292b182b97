#include "launcher/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/unique_fd.h"

namespace dl::launcher {
namespace {

std::string read_all(int fd) {
  std::string text;
  char part[4096];
  while (true) {
    const ssize_t n = ::read(fd, part, sizeof part);
    if (n > 0) text.append(part, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return text;
  }
}

// Kernels without CONFIG_PROC_CHILDREN have no list of children: every process says who its parent
// is.
std::vector<pid_t> children_from_every_stat() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  if (!proc) return children;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    const UniqueFd stat(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
    if (!stat) continue;
    const std::string text = read_all(stat.get());
    // "pid (name) state ppid ..."; the name may hold anything, parentheses included.
    const std::size_t close = text.rfind(')');
    int parent = 0;
    if (close != std::string::npos &&
        std::sscanf(text.c_str() + close + 1, " %*c %d", &parent) == 1 && parent == self) {
      children.push_back(pid);
    }
  }
  return children;
}

}  // namespace

void become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw_errno(errno, "prctl(PR_SET_CHILD_SUBREAPER)");
}

std::vector<pid_t> children_of_this_process() {
  const pid_t self = ::getpid();
  const UniqueFd fd(
      ::open(fmt::format("/proc/{0}/task/{0}/children", self).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return children_from_every_stat();
  const std::string text = read_all(fd.get());
  std::vector<pid_t> children;
  for (const char *at = text.data(), *const end = at + text.size(); at < end; ++at) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error != std::errc()) break;
    children.push_back(pid);
    at = next;  // the space behind it
  }
  return children;
}

void signal_children(int signal) {
  for (const pid_t child : children_of_this_process()) {
    ::kill(child, signal);
    if (::getpgid(child) == child) ::kill(-child, signal);
  }
}

void kill_descendants() noexcept {
  while (true) {
    try {
      signal_children(SIGKILL);
    } catch (...) {
      // Out of memory: the children that are reaped below leave orphans, which the next round sees.
    }
    // A child's orphans arrive here when it dies, so that each death is a reason to look again.
    pid_t reaped;
    do {
      reaped = ::waitpid(-1, nullptr, 0);
    } while (reaped < 0 && errno == EINTR);
    if (reaped < 0) return;  // ECHILD: nobody is left
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace dl::launcher
