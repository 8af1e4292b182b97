// Spawner: starts one process. The child borrows its parent's memory until it executes (clone with
// CLONE_VM | CLONE_VFORK). So the cost does not grow with the parent, and the parent finds the
// child's error in its own memory.
//
// The child gets its own process group and has no signal blocked. It inherits this process's signal
// actions, which must be the default ones (own_process.h). For a single-threaded process only.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dl::launcher {

struct FdAt {
  int from = -1;  // in the parent
  int to = -1;    // in the child
};

struct SpawnRequest {
  const char* path = nullptr;
  char* const* argv = nullptr;  // ends with a null pointer; so does envp
  char* const* envp = nullptr;
  const char* directory = nullptr;     // null: the parent's
  std::span<const FdAt> fds;           // no `to` may be the `from` of a later entry
  std::span<const int> cpus;           // empty: as the parent
  const rlimit* open_files = nullptr;  // null: as the parent; descriptors above it stay open
  int death_signal = SIGKILL;          // which it gets when the parent ends; 0: none
};

struct Spawned {
  pid_t pid = -1;             // -1: not started
  int error = 0;              // if not started: the errno value,
  const char* what = "exec";  // and the step that failed
};

class Spawner {
 public:
  Spawner();
  // If the kernel does not execute a file and it is text, /bin/sh runs it (program.h).
  Spawned spawn(const SpawnRequest& request);

 private:
  Spawned spawn_as_it_is(const SpawnRequest& request);

  static constexpr std::size_t kStackBytes = 64 * 1024;
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace dl::launcher
