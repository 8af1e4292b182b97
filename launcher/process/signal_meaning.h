// What each signal means to dlrun.
#pragma once

#include <cstdint>

namespace dl::launcher {

enum class SignalMeaning : std::uint8_t {
  kEndJob,   // signals whose default action ends a process: end the job in order
  kSuspend,  // stop the ranks, then dlrun
  kReport,   // report the state of the job
  kForward,  // pass it on to the ranks
  kSystem,   // left to the system: signals that cannot be caught or have no effect
};

// Linux has the signals 1 to 64.
SignalMeaning meaning_of(int signal) noexcept;

// True if a second such signal means that the user wants a faster end. The kernel repeats signals
// of limits and timers.
bool is_of_a_person(int signal) noexcept;

}  // namespace dl::launcher
