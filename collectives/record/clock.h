// The recorder's clock: the processor's time stamp counter where it runs at one rate through all
// states (a third of what asking the kernel's clock costs), else CLOCK_MONOTONIC in nanoseconds.
//
// Two readings of both clocks, at the beginning and when a copy is taken, turn ticks into time.
#pragma once

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

}  // namespace dl::collectives::record
