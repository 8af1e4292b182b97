// ProbeSchedule: when a waiting operation probes its peers. The first time is half a second before
// it logs the missing ranks, or after three quarters of a short timeout. The second time is 2 s
// before its deadline, because peers may have stopped since. A value; the driver of the operation
// owns it.
#pragma once

#include <chrono>

#include "core/base/deadline.h"

namespace dl::collectives {

class ProbeSchedule {
 public:
  using Time = Deadline::Clock::time_point;

  // True if probes are due after a wait of `waited`. They then count as sent.
  bool are_due(std::chrono::nanoseconds waited, Time now, std::chrono::nanoseconds timeout,
               std::chrono::nanoseconds warn_after) noexcept;
  // The waiting time after which the next probe is due; max(): never.
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
