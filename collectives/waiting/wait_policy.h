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

#include "core/base/deadline.h"

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
// its own even if its set is smaller than the number of ranks, provided that the ranks' sets can be
// disjoint.
WaitPolicy wait_policy(int local_ranks, int usable, int online) noexcept;

// When a waiting operation probes its peers: once so early that the answers are there when it logs
// the missing ranks (after three quarters of a short deadline), and once shortly before its
// deadline, because peers may have stopped since. Times count from the operation's begin. A value;
// the driver of the operation owns it.
class ProbeSchedule {
 public:
  using Time = Deadline::Clock::time_point;

  // Whether to probe now; if it returns true, the probes count as sent.
  bool are_due(Time begin, Time now, std::chrono::nanoseconds timeout,
               std::chrono::nanoseconds warn_after) noexcept;
  // When the next probe is due; max(): never.
  std::chrono::nanoseconds next(std::chrono::nanoseconds timeout,
                                std::chrono::nanoseconds warn_after) const noexcept;
  // True if a peer whose last answer came at `last_answer` has not answered the latest probe. Any
  // answer counts, also one to another operation's probe.
  bool are_unanswered(Time last_answer) const noexcept {
    return asked_ > 0 && last_answer < asked_at_;
  }
  Time asked_at() const noexcept { return asked_at_; }  // the latest probe

 private:
  int asked_ = 0;  // how many of the two were sent
  Time asked_at_{};
};

}  // namespace dl::collectives
