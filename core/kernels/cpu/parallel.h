// Splits a range over OpenMP's threads.
//
// The split depends on the range and the number of threads alone, so a kernel that sums inside its
// part and adds the parts in their order gives the same bits on every run with that many threads.
// Only one thread of a process may call this (each further one would get a team of its own); a call
// from inside a parallel region runs serially.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace dl::kernels {

inline int max_threads() noexcept {
  return omp_get_max_threads();
}

// How many parts parallel_for will cut `count` items into, when a part should have at least
// `grain`. It is one or the full team: libgomp ends and restarts threads when teams of other sizes
// alternate.
inline int parts_of(std::int64_t count, std::int64_t grain) noexcept {
  return count < 2 * grain || omp_in_parallel() != 0 ? 1 : max_threads();
}

// Calls body(part, begin, end) for each of parts_of(count, grain) contiguous parts of [0, count).
// `body` must not throw.
template <typename Body>
void parallel_parts(std::int64_t count, std::int64_t grain, const Body& body) {
  const int parts = parts_of(count, grain);
  if (parts == 1) {
    body(0, std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(parts)
  {
    // OpenMP may give fewer threads than asked for; the parts stay the same.
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      body(part, count * part / parts, count * (part + 1) / parts);
    }
  }
}

// Calls body(begin, end).
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  parallel_parts(count, grain,
                 [&](int, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace dl::kernels
