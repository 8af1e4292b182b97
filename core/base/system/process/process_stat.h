// The contents of /proc/PID/stat for a process or a thread.
#pragma once

#include <sys/types.h>

#include <string>

namespace dl {

struct ProcessStat {
  char state = 0;  // R, S, D, T, Z, ...; 0: no such process
  pid_t parent = 0;
  unsigned flags = 0;                  // the kernel's PF_*
  std::string name;                    // at most 15 bytes
  unsigned long long start_ticks = 0;  // when it began, since boot
  double cpu_s = 0;                    // time on a processor, in user mode and in the kernel

  // False also for a zombie.
  bool is_alive() const noexcept { return state != 0 && state != 'Z' && state != 'X'; }
};

// `folder`: /proc/PID, or /proc/PID/task/TID.
ProcessStat read_stat(const std::string& folder);
// The kernel function in which it sleeps; empty if it does not sleep or the kernel hides it.
std::string wait_channel(const std::string& folder);

}  // namespace dl
