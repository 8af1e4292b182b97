// Bell: what wakes a rank that sleeps until a peer has written something.
//
// The sleeper says that it sleeps, looks once more, and sleeps on the word; whoever has written
// looks whether the other sleeps, and rings. Between each side's write and look stands a full
// fence, so that one of them sees the other. Where a writer leaves the fence out to save its time
// (Core::published), the sleeper's longest nap bounds what may be missed.
#pragma once

#include <chrono>
#include <cstdint>

#include "collectives/shm/access.h"

namespace dl::collectives::shm {

struct Bell {
  Atomic<std::uint32_t> word;    // changes with every ring
  Atomic<std::uint32_t> asleep;  // 1 while its owner sleeps or is about to
};

// Wakes the owner, in whatever process it is. Any thread.
void ring(Bell& bell) noexcept;
// Sleeps until the word is no longer `seen`, at most `most`. Wakes without cause, too.
void nap(Atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds most) noexcept;
// Wakes all that nap on a word.
void wake(Atomic<std::uint32_t>& word) noexcept;

// No load after it moves before a store that precedes it.
void full_fence() noexcept;
// Tells the processor that this is a waiting loop.
void relax() noexcept;

}  // namespace dl::collectives::shm
