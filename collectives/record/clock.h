// The recorder's clock: the processor's time stamp counter where it runs at one rate through all
// states (a third of what asking the kernel's clock costs), else CLOCK_MONOTONIC in nanoseconds.
//
// Two readings of both clocks, at the beginning and when a copy is taken, turn ticks into time.
#pragma once

#include <chrono>
#include <cstdint>

namespace dl::collectives::record {

enum class ClockKind : std::uint64_t { kMonotonic = 0, kTimeStampCounter = 1 };

// What this machine offers.
ClockKind best_clock() noexcept;

std::uint64_t monotonic_ns() noexcept;
std::uint64_t realtime_ns() noexcept;

inline std::uint64_t ticks(ClockKind clock) noexcept {
#if defined(__x86_64__)
  if (clock == ClockKind::kTimeStampCounter) return __builtin_ia32_rdtsc();
#endif
  return monotonic_ns();
}

// Ticks as points in time: from a reading of both clocks when it was made, and one more when it is
// asked. A value; any thread.
class TickTime {
 public:
  using Steady = std::chrono::steady_clock;
  TickTime() noexcept : kind_(best_clock()), began_(Steady::now()), began_at_(ticks(kind_)) {}

  std::uint64_t now() const noexcept { return ticks(kind_); }
  Steady::time_point time_of(std::uint64_t tick) const noexcept;

 private:
  ClockKind kind_;
  Steady::time_point began_;
  std::uint64_t began_at_;
};

}  // namespace dl::collectives::record
