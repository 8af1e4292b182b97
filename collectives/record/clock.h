// The recorder's clock: the processor's time stamp counter, if it runs at a constant rate in all
// power states; else CLOCK_MONOTONIC in nanoseconds. Reading the counter takes a third of the time
// of the kernel's clock.
//
// To convert ticks to time, both clocks are read twice: at the start, and when a copy is taken.
#pragma once

#include <chrono>
#include <cstdint>

namespace dl::collectives::record {

enum class ClockKind : std::uint64_t { kMonotonic = 0, kTimeStampCounter = 1 };

// The best clock of this machine.
ClockKind best_clock() noexcept;

std::uint64_t monotonic_ns() noexcept;
std::uint64_t realtime_ns() noexcept;

inline std::uint64_t ticks(ClockKind clock) noexcept {
#if defined(__x86_64__)
  if (clock == ClockKind::kTimeStampCounter) return __builtin_ia32_rdtsc();
#endif
  return monotonic_ns();
}

// Converts ticks to points in time. It reads both clocks at construction and again at each call. A
// value; any thread.
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

// The process's TickTime. The longer it runs, the better it knows its rate.
const TickTime& tick_time() noexcept;

}  // namespace dl::collectives::record
