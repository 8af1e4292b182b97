// Parallel loops in numbered parts, for kernels that sum: each part has its own sum, and the parts
// are added in order afterwards. So the same number of threads gives the same bits on every run.
#pragma once

#include <cstdint>

#include "core/device/parallel.h"

namespace dl::kernels {

// The number of parts into which parallel_parts() divides `count` items, with at least `grain`
// items a part: 1, or the number of threads.
inline int parts_of(std::int64_t count, std::int64_t grain) noexcept {
  return count < 2 * grain ? 1 : dl::detail::usable_threads();
}

// Calls body(part, begin, end) for each of parts_of(count, grain) contiguous parts of [0, count).
// The body must not throw.
template <typename Body>
void parallel_parts(std::int64_t count, std::int64_t grain, const Body& body) {
  const int parts = parts_of(count, grain);
  if (parts == 1) {
    body(0, std::int64_t{0}, count);
    return;
  }
  const auto run = [&](int part) { body(part, count * part / parts, count * (part + 1) / parts); };
  dl::detail::run_parts(
      parts,
      [](const void* erased, int part) { (*static_cast<const decltype(run)*>(erased))(part); },
      &run);
}

}  // namespace dl::kernels
