// ProbeSchedule: when a waiting operation probes its peers: once so early that the answers are
// there when it logs the missing ranks (after three quarters of a short deadline), and once shortly
// before its deadline, because peers may have stopped since. A value; the driver of the operation
// owns it.
#pragma once

#include <chrono>

#include "core/base/deadline.h"

namespace dl::collectives {

class ProbeSchedule {
 public:
  using Time = Deadline::Clock::time_point;

  // Whether to probe after having waited so long; if it returns true, the probes count as sent.
  bool are_due(std::chrono::nanoseconds waited, Time now, std::chrono::nanoseconds timeout,
               std::chrono::nanoseconds warn_after) noexcept;
  // After how long a wait the next probe is due; max(): never.
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
