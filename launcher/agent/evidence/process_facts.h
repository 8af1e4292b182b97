// Facts from the kernel about the processes of a rank, for programs without a flight recorder.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dl::launcher {

struct RankProcess {
  int rank = 0;
  pid_t pid = -1;
};

// A table with every process of these ranks: its state, the kernel function in which it waits, its
// CPU time and its threads. Below the table: the kernel stack of each waiting process, if this user
// may read it.
std::vector<std::string> process_facts(const std::vector<RankProcess>& ranks);

}  // namespace dl::launcher
