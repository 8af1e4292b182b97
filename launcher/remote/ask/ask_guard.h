// AskGuard: a process that ends the programs through which this process asks hosts, if this process
// is killed: an srun may ignore the SIGTERM that it gets then, or be stopped.
//
// For a process with a single thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "core/base/system/unique_fd.h"

namespace dl::launcher::remote {

// Programs that lead a process group of their own get SIGTERM, and after this time SIGKILL.
struct AskedGroup {
  pid_t leader = -1;
  std::chrono::seconds time_to_end{0};
};

class AskGuard {
 public:
  explicit AskGuard(const std::vector<AskedGroup>& groups);
  AskGuard(const AskGuard&) = delete;
  AskGuard& operator=(const AskGuard&) = delete;
  // The guard ends and leaves the programs alone.
  ~AskGuard();

 private:
  pid_t pid_ = -1;  // -1: it could not be forked
  UniqueFd line_;   // closes with this process
};

// SIGTERM, which also reaches a stopped program.
void ask_to_end(const AskedGroup& group) noexcept;

}  // namespace dl::launcher::remote
