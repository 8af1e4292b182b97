#include "collectives/peer_process.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace dl::collectives {
namespace {

// When it began, in clock ticks since boot (proc_pid_stat(5), field 22). Empty if there is no such
// process, or it has ended and its parent has not heard of it yet.
std::string start_time(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // The name, in parentheses, may hold anything.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  std::string state;
  fields >> state;
  std::string field;
  for (int number = 4; number <= 22; ++number) fields >> field;
  return fields && state != "Z" && state != "X" ? field : std::string();
}

// All but the start time; empty if it cannot be known.
std::string place_mark() {
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(boot_file, boot);
  struct stat pids{};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &pids) != 0) return {};
  return fmt::format("{}/{}/", boot, pids.st_ino);
}

std::string mark_of(int pid) {
  const std::string place = place_mark();
  const std::string start = start_time(pid);
  return place.empty() || start.empty() ? std::string() : place + start;
}

}  // namespace

std::string process_mark() {
  return mark_of(::getpid());
}

UniqueFd watch_process(const Identity& who) {
  if (who.process.empty() || who.pid <= 0 || who.pid == ::getpid()) return {};
#ifdef SYS_pidfd_open
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0U)));
  // After it was opened: the number cannot change its meaning any more.
  if (process && mark_of(who.pid) == who.process) return process;
#endif
  return {};
}

bool has_ended(const Identity& who) {
  const std::string place = place_mark();
  return !place.empty() && who.process.starts_with(place) && mark_of(who.pid) != who.process;
}

std::string text_of_forked_child(const std::string& group, const Identity& owner) {
  return fmt::format(
      "group '{}' belongs to {}, and this process (pid {}) is a child that it forked; a child "
      "cannot use its parent's groups: fork before init_process_group(), or exec a program that "
      "calls it",
      group, owner.text(), ::getpid());
}

}  // namespace dl::collectives
