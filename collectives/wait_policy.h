// How a thread waits for an operation. The policy matters more than the algorithm: spinning is the
// fastest where each rank has a core, and ruins everybody where ranks outnumber them.
//
//   1. Whoever waits first helps: it drives the progress engine itself, without sleeping, as long
//   as
//      bytes move and for `spin` after the last one did. Between two looks it yields its core
//      (`yields`) where ranks outnumber cores.
//   2. Then it sleeps, and the process's progress thread, asleep in poll() until something arrives,
//      goes on and wakes it.
//
// A value; computed once a group.
#pragma once

#include <chrono>

namespace dl::collectives {

struct WaitPolicy {
  std::chrono::nanoseconds spin{0};
  bool yields = true;
  std::chrono::nanoseconds speak_after = std::chrono::seconds(5);  // then a wait says for whom
};

// For `local_ranks` ranks on this node and the CPU set of the calling thread.
WaitPolicy wait_policy(int local_ranks) noexcept;
// The rule itself: `usable` CPUs in this rank's set, `online` in the machine. A set smaller than
// the number of ranks still means a core of one's own where the sets can be disjoint.
WaitPolicy wait_policy(int local_ranks, int usable, int online) noexcept;

}  // namespace dl::collectives
