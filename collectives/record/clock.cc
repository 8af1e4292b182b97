#include "collectives/record/clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dl::collectives::record {
namespace {

std::uint64_t read(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

ClockKind best_clock() noexcept {
#if defined(__x86_64__)
  // Invariant TSC: Intel's and AMD's manuals, CPUID 80000007H, EDX bit 8.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0) {
    return ClockKind::kTimeStampCounter;
  }
#endif
  return ClockKind::kMonotonic;
}

std::uint64_t monotonic_ns() noexcept {
  return read(CLOCK_MONOTONIC);
}

std::uint64_t realtime_ns() noexcept {
  return read(CLOCK_REALTIME);
}

TickTime::Steady::time_point TickTime::time_of(std::uint64_t tick) const noexcept {
  const Steady::time_point now = Steady::now();
  const std::uint64_t now_at = ticks(kind_);
  const double per_tick =
      static_cast<double>((now - began_).count()) / static_cast<double>(now_at - began_at_);
  const auto since = static_cast<double>(static_cast<std::int64_t>(now_at - tick)) * per_tick;
  return now - Steady::duration(static_cast<Steady::rep>(since));
}

const TickTime& tick_time() noexcept {
  static const TickTime time;
  return time;
}

}  // namespace dl::collectives::record
