// Host memory for tensors: a caching allocator of 64-byte aligned blocks.
//
// Sizes are rounded up to classes (multiples of 64 up to 512, then four classes a power of two).
// Freed blocks of up to 64 KiB go to a list of the freeing thread, so that a small tensor costs
// neither a lock nor a malloc; larger ones, and what overflows a thread's list, go to one central
// pool behind a mutex, so that a training step finds the last step's memory again, already mapped.
// The pool keeps no more than the process has needed at its peak. Any thread may free what another
// allocated. In AddressSanitizer builds every block is malloc's own, so that its checks see them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::memory {

inline constexpr std::size_t kAlignment = 64;

// At least `bytes` bytes, aligned to kAlignment, uninitialised; not null for 0 bytes. Throws
// kInvalidArgument if the system is out of memory; the text says how much was wanted.
void* allocate(std::size_t bytes);
// `bytes`: the argument of allocate().
void deallocate(void* block, std::size_t bytes) noexcept;

struct Statistics {
  std::uint64_t live_bytes = 0;    // not in the pool; blocks in a thread's own lists count as live
  std::uint64_t peak_bytes = 0;    // the most that live_bytes has been
  std::uint64_t cached_bytes = 0;  // in the pool, ready for reuse
  std::uint64_t system_allocations = 0;  // allocations from the system
};

Statistics statistics() noexcept;
// Gives the calling thread's lists and the pool back to the system.
void release_cached() noexcept;

}  // namespace dl::memory
