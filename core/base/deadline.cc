#include "core/base/deadline.h"

#include <algorithm>
#include <limits>

#include "core/base/system/process/stopped.h"

namespace dl::detail {

Deadline Deadline::after(std::chrono::nanoseconds span) noexcept {
  const Clock::time_point now = Clock::now();
  if (span >= Clock::time_point::max() - now) return never();
  return {now + std::chrono::duration_cast<Clock::duration>(span), stopped_time(now)};
}

Deadline Deadline::at(Clock::time_point when) noexcept {
  if (when == Clock::time_point::max()) return never();
  return {when, stopped_time(Clock::now())};
}

Deadline::Clock::time_point Deadline::when(Clock::time_point now) const noexcept {
  if (is_never()) return when_;
  const std::chrono::nanoseconds stops = stopped_time(now) - stopped_before_;
  return when_ + std::min(stops, Clock::time_point::max() - when_);
}

Deadline Deadline::earlier(Deadline a, Deadline b) noexcept {
  const Clock::time_point now = Clock::now();
  return a.when(now) < b.when(now) ? a : b;
}

std::chrono::nanoseconds Deadline::left() const noexcept {
  if (is_never()) return std::chrono::nanoseconds::max();
  const Clock::time_point now = Clock::now();
  const auto rest = when(now) - now;
  return rest > Clock::duration::zero() ? std::chrono::duration_cast<std::chrono::nanoseconds>(rest)
                                        : std::chrono::nanoseconds::zero();
}

int Deadline::poll_timeout() const noexcept {
  if (is_never()) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
  return ms > std::numeric_limits<int>::max() ? std::numeric_limits<int>::max()
                                              : static_cast<int>(ms);
}

}  // namespace dl::detail
