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

inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace dl::collectives::shm
