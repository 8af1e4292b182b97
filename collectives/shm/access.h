// How memory that other ranks see is read and written.
//
// The protocol's code (advance.cc, wake.cc) touches shared memory through what stands here only, so
// that a test can run that very code over a model of a weakly ordered memory, with this file
// replaced (tests/collectives/shm/model).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

namespace dl::collectives::shm {

template <typename T>
using Atomic = std::atomic<T>;

// Makes a line this core's own before it is written, so that the store need not wait for those that
// have read it. Only a hint.
inline void fetch_to_write(void* line) noexcept {
#if defined(__x86_64__)
  // Without the option for it, the compiler's builtin only reads.
  asm volatile("prefetchw %0" : "+m"(*static_cast<char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace dl::collectives::shm
