// Host memory for tensors: a caching allocator of 64-byte aligned blocks.
//
// Sizes are rounded up to classes (multiples of 64 up to 512, then four classes per power of two).
// Freed blocks of up to 64 KiB go to a list of the freeing thread, so a small tensor needs neither
// a lock nor malloc. Larger blocks, and blocks that overflow a thread's list, go to one central
// pool behind a mutex, so that a training step reuses the last step's memory, which is already
// mapped. The pool gives blocks back to the system when live and cached blocks together exceed 1.25
// times the peak of live bytes plus 64 MiB. Any thread may free a block that another thread
// allocated. In AddressSanitizer builds, every block comes from malloc, so that the sanitizer
// checks it; statistics() then stays 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dl::memory {

inline constexpr std::size_t kAlignment = 64;

// At least `bytes` bytes, aligned to kAlignment, uninitialised; not null for 0 bytes. Throws
// kInvalidArgument if the system is out of memory; the text says how much was wanted.
void* allocate(std::size_t bytes);
// `bytes`: what allocate() was given for this block.
void deallocate(void* block, std::size_t bytes) noexcept;

struct Statistics {
  std::uint64_t live_bytes = 0;    // not in the pool; blocks in a thread's own lists count as live
  std::uint64_t peak_bytes = 0;    // the most that live_bytes has been
  std::uint64_t cached_bytes = 0;  // in the pool, ready for reuse
  std::uint64_t system_allocations = 0;  // allocations from the system
};

Statistics statistics() noexcept;
// Gives all blocks in the calling thread's lists and in the pool back to the system.
void release_cached() noexcept;

}  // namespace dl::memory
