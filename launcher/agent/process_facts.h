// What the kernel says of a rank's processes, for programs that keep no flight recorder.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dl::launcher {

struct RankProcess {
  int rank = 0;
  pid_t pid = -1;
};

// A table of every process of these ranks: what it does, where in the kernel it waits, its time on
// a processor, its threads; below, the kernel's stack of each that waits, if this user may read it.
std::vector<std::string> process_facts(const std::vector<RankProcess>& ranks);

}  // namespace dl::launcher
