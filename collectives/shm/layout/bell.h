// Bell: wakes a rank that sleeps until a peer has written something.
//
// The sleeper sets `asleep`, checks once more, and sleeps on `word`. A writer checks `asleep` after
// its write, and rings. A full fence between write and check on both sides ensures that one of them
// sees the other. If a writer omits the fence to save time (Bells::published), the sleeper's
// longest nap bounds the delay.
#pragma once

#include <chrono>
#include <cstdint>

#include "collectives/shm/layout/access.h"

namespace dl::collectives::shm {

struct Bell {
  Atomic<std::uint32_t> word;    // changes with every ring
  Atomic<std::uint32_t> asleep;  // 1 while its owner sleeps or is about to
};

// Wakes the owner, which may be in another process. Any thread.
void ring(Bell& bell) noexcept;
// Sleeps until the word differs from `seen`, for at most `most`. May wake spuriously.
void nap(Bell& bell, std::uint32_t seen, std::chrono::nanoseconds most) noexcept;

// Prevents later loads from moving before earlier stores.
void full_fence() noexcept;
// Tells the processor that this is a spin loop.
void relax() noexcept;

}  // namespace dl::collectives::shm
