#include "collectives/process/peer_process.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/base/system/process/process_stat.h"

namespace dl::collectives {
namespace {

// When the process began, in clock ticks since boot. Empty if there is no such process, or it is a
// zombie.
std::string start_time(int pid) {
  const ProcessStat stat = read_stat(fmt::format("/proc/{}", pid));
  return stat.is_alive() ? std::to_string(stat.start_ticks) : std::string();
}

// Boot id and pid namespace; empty if they are unknown.
std::string place_mark() {
  const std::string boot = boot_id();
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

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string process_mark() {
  return mark_of(::getpid());
}

UniqueFd watch_process(const Identity& who) {
  if (who.process.empty() || who.pid <= 0 || who.pid == ::getpid()) return {};
#ifdef SYS_pidfd_open
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0U)));
  // Check the mark after pidfd_open(): from now on the pid cannot be reused.
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
      "cannot use its parent's groups: fork before the group is made, or exec a program that "
      "makes its own",
      group, owner.text(), ::getpid());
}

}  // namespace dl::collectives
