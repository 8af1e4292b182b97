#include "collectives/waiting/judge/probe_schedule.h"

#include <algorithm>

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;

// Time for the peers' answers.
constexpr std::chrono::nanoseconds kAskBefore = 500ms;
constexpr std::chrono::nanoseconds kAskBeforeDeadline = 2s;

}  // namespace

std::chrono::nanoseconds ProbeSchedule::next(std::chrono::nanoseconds timeout,
                                             std::chrono::nanoseconds warn_after) const noexcept {
  const std::chrono::nanoseconds first = std::min(warn_after - kAskBefore, timeout / 4 * 3);
  if (asked_ == 0) return first;
  const std::chrono::nanoseconds last = timeout - kAskBeforeDeadline;
  return asked_ == 1 && last > first + kAskBefore ? last : std::chrono::nanoseconds::max();
}

bool ProbeSchedule::are_due(std::chrono::nanoseconds waited, Time now,
                            std::chrono::nanoseconds timeout,
                            std::chrono::nanoseconds warn_after) noexcept {
  const int before = asked_;
  while (waited >= next(timeout, warn_after)) ++asked_;
  if (asked_ == before) return false;
  asked_at_ = now;
  return true;
}

}  // namespace dl::collectives
