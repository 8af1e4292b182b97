// How a thread waits for an operation. The policy matters more than the algorithm: spinning is the
// fastest if each rank has a core, and slows all ranks down if they outnumber the cores.
//
//   1. The first thread that waits drives the operation itself, without sleeping, as long as bytes
//      move and for `spin` after the last one. If ranks outnumber cores it yields its core between
//      two polls (`yields`).
//   2. Then it sleeps. The group's progress thread, asleep in poll() until data arrives, continues
//      and wakes it.
//
// A value; computed once a group.
#pragma once

#include <chrono>

namespace dl::collectives {

struct WaitPolicy {
  std::chrono::nanoseconds spin{0};
  bool yields = true;
  // After this time a wait logs the missing ranks.
  std::chrono::nanoseconds warn_after = std::chrono::seconds(5);
};

// For `local_ranks` ranks on this node and the CPU set of the calling thread.
WaitPolicy wait_policy(int local_ranks) noexcept;
// The rule itself: `usable` CPUs in this rank's set, `online` in the machine. A rank has a core of
// its own if its set has a CPU for each rank, or if the ranks' sets can be disjoint.
WaitPolicy wait_policy(int local_ranks, int usable, int online) noexcept;

}  // namespace dl::collectives
