#include "launcher/process/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/system/process/process_stat.h"
#include "core/base/system/unique_fd.h"

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

// The subfolders of a folder of /proc whose names are numbers.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), &::closedir);
  if (!open) return numbers;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    pid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

// Kernels without CONFIG_PROC_CHILDREN have no list of children, so every process is asked for its
// parent.
std::vector<pid_t> children_from_every_stat(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t pid : numbers_in("/proc")) {
    if (read_stat(fmt::format("/proc/{}", pid)).parent == parent) children.push_back(pid);
  }
  return children;
}

// The children of the first thread only; another thread's children go to a subreaper when the
// thread ends.
std::vector<pid_t> children_of(pid_t parent) {
  const UniqueFd fd(
      ::open(fmt::format("/proc/{0}/task/{0}/children", parent).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return children_from_every_stat(parent);
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

// The warden and the supervisor, which end after all other processes.
bool is_our_helper(std::string_view name) {
  return name == kSupervisorName || name == kWardenName;
}

}  // namespace

void become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw_errno(errno, "prctl(PR_SET_CHILD_SUBREAPER)");
}

std::vector<pid_t> children_of_this_process() {
  return children_of(::getpid());
}

std::vector<pid_t> threads_of(pid_t pid) {
  return numbers_in(fmt::format("/proc/{}/task", pid));
}

std::vector<pid_t> tree_of(pid_t root) {
  std::vector<pid_t> tree = {root};
  for (std::size_t next = 0; next < tree.size(); ++next) {
    const std::vector<pid_t> children = children_of(tree[next]);
    tree.insert(tree.end(), children.begin(), children.end());
  }
  return tree;
}

bool is_ending(pid_t pid) {
  constexpr unsigned kExiting = 4;  // PF_EXITING
  const ProcessStat stat = read_stat(fmt::format("/proc/{}", pid));
  return !stat.is_alive() || (stat.flags & kExiting) != 0;
}

void reap_orphans() {
  siginfo_t ended{};
  if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
  for (const pid_t child : children_of_this_process()) {
    const ProcessStat stat = read_stat(fmt::format("/proc/{}", child));
    if (stat.state == 'Z' && stat.name != kWardenName) ::waitpid(child, nullptr, WNOHANG);
  }
}

namespace {

void signal_child(pid_t child, int signal) {
  ::kill(child, signal);
  if (::getpgid(child) == child) ::kill(-child, signal);
}

}  // namespace

void signal_children(int signal) {
  for (const pid_t child : children_of_this_process()) signal_child(child, signal);
}

void kill_descendants_but(const std::function<bool(pid_t)>& is_kept,
                          const std::function<void(pid_t, int)>& on_ended) {
  while (true) {
    bool is_one_left = false;
    for (const pid_t child : children_of_this_process()) {
      if (is_kept(child)) continue;
      is_one_left = true;
      signal_child(child, SIGKILL);
    }
    if (!is_one_left) return;
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid > 0) on_ended(pid, status);
  }
}

namespace {

// Returns true if no child is left.
bool kill_and_reap_children() noexcept {
  try {
    signal_children(SIGKILL);
  } catch (...) {
    // Out of memory: the next round looks again.
  }
  pid_t reaped;
  while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
  }
  return reaped < 0 && errno == ECHILD;
}

}  // namespace

bool kill_descendants(rendezvous::Deadline deadline) noexcept {
  // SIGCHLD is blocked, so that it ends the pause below. Another thread may take it, so the pause
  // is short.
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 2'000'000};
  sigset_t child;
  sigset_t before;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &child, &before);
  const bool all_gone = [&] {
    while (true) {
      if (kill_and_reap_children()) return true;
      if (deadline.has_passed()) return false;
      ::sigtimedwait(&child, nullptr, &kPause);
    }
  }();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return all_gone;
}

namespace {

// The effective user, from "Uid:\t1000\t0\t0\t0": a set-uid process's folder in /proc belongs to
// root for every user. Empty: the process is gone.
std::string user_of(const std::string& folder) {
  std::ifstream status(folder + "/status");
  std::string word;
  while (status >> word && word != "Uid:") {
  }
  std::string effective;
  status >> word >> effective;
  return effective;
}

}  // namespace

std::string why_it_stays(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  if (::kill(pid, 0) != 0 && errno == EPERM) {
    return fmt::format("it runs as user {}, and user {} may not signal it", user_of(folder),
                       ::geteuid());
  }
  const char state = read_stat(folder).state;
  const std::string where = wait_channel(folder);
  return fmt::format("state {}{}{}", state == 0 ? '?' : state,
                     state == 'D' ? " (uninterruptible, until a disk or a driver lets it go)" : "",
                     where.empty() ? "" : ", in " + where);
}

std::vector<std::string> living_descendants() {
  std::vector<std::string> found;
  for (const pid_t pid : tree_of(::getpid())) {
    if (pid == ::getpid()) continue;
    const ProcessStat stat = read_stat(fmt::format("/proc/{}", pid));
    if (!stat.is_alive() || is_our_helper(stat.name)) continue;
    found.push_back(fmt::format("{} ({}), {}", pid, stat.name, why_it_stays(pid)));
  }
  return found;
}

std::vector<StoppedOverseer> stopped_overseers() {
  std::vector<StoppedOverseer> stopped;
  const auto look_at = [&](pid_t pid) {
    const ProcessStat stat = read_stat(fmt::format("/proc/{}", pid));
    if (is_our_helper(stat.name) && (stat.state == 'T' || stat.state == 't')) {
      stopped.push_back({pid, stat.name == kWardenName ? "the warden" : "the supervisor"});
    }
    return stat.name == kWardenName;
  };
  // Without a warden, the supervisor is this process's child.
  for (const pid_t child : children_of_this_process()) {
    if (look_at(child)) std::ranges::for_each(children_of(child), look_at);
  }
  return stopped;
}

std::vector<pid_t> processes_of_ranks() {
  const std::vector<pid_t> all = tree_of(::getpid());
  // The first one: a dlrun that a rank has started has its own, which is deeper.
  const auto supervisor = std::ranges::find_if(all, [](pid_t pid) {
    return read_stat(fmt::format("/proc/{}", pid)).name == kSupervisorName;
  });
  if (supervisor == all.end()) return {};
  std::vector<pid_t> processes = tree_of(*supervisor);
  processes.erase(processes.begin());
  std::erase_if(processes, is_ending);
  return processes;
}

void kill_descendants() noexcept {
  while (true) {
    try {
      signal_children(SIGKILL);
    } catch (...) {
      // Out of memory: the children that are reaped below leave orphans, which the next round
      // finds.
    }
    // A child's orphans arrive here when it dies, so after each death the list is read again.
    pid_t reaped;
    do {
      reaped = ::waitpid(-1, nullptr, 0);
    } while (reaped < 0 && errno == EINTR);
    if (reaped < 0) return;  // ECHILD: no child is left
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace dl::launcher
