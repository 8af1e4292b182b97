// How a thread waits for an operation. The policy matters more than the algorithm: spinning is the
// fastest where each rank has a core, and ruins everybody where ranks outnumber them.
//
//   1. Whoever waits first helps: it drives the operation itself, without sleeping, as long as
//      bytes move and for `spin` after the last one did. Between two looks it yields its core
//      (`yields`) where ranks outnumber cores.
//   2. Then it sleeps, and the group's progress thread, asleep in poll() until something arrives,
//      goes on and wakes it.
//
// A value; computed once a group.
#pragma once

#include <chrono>

#include "core/base/deadline.h"

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

// When an operation that waits asks its peers for a sign of life: so long before it says for whom
// it waits that the answers are there (after three quarters of a short deadline), and once more
// shortly before its deadline, as they may have stopped since. Spans count from its begin.
//
// A value; whoever drives the operation has it.
class Questions {
 public:
  using Time = Deadline::Clock::time_point;

  // Whether to ask now; counts as asked where it says so.
  bool are_due(Time begin, Time now, std::chrono::nanoseconds timeout,
               std::chrono::nanoseconds speak_after) noexcept;
  // When they are due next; max(): never.
  std::chrono::nanoseconds next(std::chrono::nanoseconds timeout,
                                std::chrono::nanoseconds speak_after) const noexcept;
  // Whether a peer that answered last then has left them unanswered. Others' questions may have
  // been answered meanwhile: any answer will do.
  bool are_unanswered(Time last_answer) const noexcept {
    return asked_ > 0 && last_answer < asked_at_;
  }
  Time asked_at() const noexcept { return asked_at_; }  // the latest

 private:
  int asked_ = 0;  // of the two
  Time asked_at_{};
};

}  // namespace dl::collectives
