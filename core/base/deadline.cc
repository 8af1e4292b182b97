#include "core/base/deadline.h"

#include <limits>

namespace dl {

Deadline Deadline::after(std::chrono::nanoseconds span) noexcept {
  const Clock::time_point now = Clock::now();
  if (span >= Clock::time_point::max() - now) return never();
  return Deadline(now + std::chrono::duration_cast<Clock::duration>(span));
}

std::chrono::nanoseconds Deadline::left() const noexcept {
  if (is_never()) return std::chrono::nanoseconds::max();
  const auto rest = when_ - Clock::now();
  return rest > Clock::duration::zero() ? std::chrono::duration_cast<std::chrono::nanoseconds>(rest)
                                        : std::chrono::nanoseconds::zero();
}

int Deadline::poll_timeout() const noexcept {
  if (is_never()) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
  return ms > std::numeric_limits<int>::max() ? std::numeric_limits<int>::max()
                                              : static_cast<int>(ms);
}

}  // namespace dl
