// Sleeping on a 32-bit word until another thread changes it, or another process that maps it.
//
// A waker changes the word first. To save the system call, keep a count of sleepers, and let both
// sides be sequentially consistent: either the waker sees the sleeper, or the sleeper the change.
// Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dl {

// Sleeps until woken, for at most `most`; returns at once if the word differs from `seen`. May
// return for no reason.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::nanoseconds most) noexcept;
// Wakes all that sleep on the word.
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace dl
