// Reads and writes of memory that other ranks see.
//
// The protocol's code (protocol/) touches shared memory only through this file. A test
// replaces this file to run the same code on a model of a weakly ordered memory
// (tests/collectives/shm/model).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

namespace dl::collectives::shm {

template <typename T>
using Atomic = std::atomic<T>;

// Prefetches a line for writing, so that the store need not wait until other cores have given up
// their copies. Only a hint.
inline void fetch_to_write(void* line) noexcept {
#if defined(__x86_64__)
  // Without -mprfchw the compiler's builtin prefetches for reading only.
  asm volatile("prefetchw %0" : "+m"(*static_cast<char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace dl::collectives::shm
