// Patience: says when a wait should log whom it waits for: after 5 s, then after 10, 20 and 40 s,
// then every minute. Time in which this process was stopped does not count (stopped.h). Tests use
// less than 5 s.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/base/deadline.h"
#include "core/base/system/process/stopped.h"

namespace dl::rendezvous {

inline constexpr std::chrono::seconds kWarnAfter{5};

class Patience {
 public:
  using Time = Deadline::Clock::time_point;
  explicit Patience(Time start = Deadline::Clock::now()) noexcept : start_(start) {}
  explicit Patience(std::chrono::nanoseconds warn_after) noexcept : next_(warn_after) {}

  // When the wait should next wake up to log, or `deadline` if that is earlier.
  Deadline until(Deadline deadline) const noexcept {
    return Deadline::earlier(deadline, Deadline::at(start(Deadline::Clock::now()) + next_));
  }
  // True once for each time at which the wait should log.
  bool should_warn(Time now = Deadline::Clock::now()) noexcept {
    return should_warn_after(now - start(now));
  }
  // should_warn() for a wait that has lasted `waited`.
  bool should_warn_after(std::chrono::nanoseconds waited) noexcept {
    if (waited < next_) return false;
    next_ += std::min<std::chrono::nanoseconds>(next_, std::chrono::minutes(1));
    return true;
  }
  std::chrono::seconds waited(Time now = Deadline::Clock::now()) const noexcept {
    return std::chrono::duration_cast<std::chrono::seconds>(now - start(now));
  }

 private:
  Time start(Time now) const noexcept { return start_ + (stopped_time(now) - stopped_before_); }

  Time start_ = Deadline::Clock::now();
  std::chrono::nanoseconds stopped_before_ = stopped_time(start_);
  std::chrono::nanoseconds next_ = kWarnAfter;
};

}  // namespace dl::rendezvous
