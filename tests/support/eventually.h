// Waits for what another thread or process does. Every test that polls does it with this, so that
// each poll has a deadline, and one that a loaded machine does not miss.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>

namespace dl::tests {

// How long a test waits for what must come: a loaded machine may keep any process from running for
// seconds.
inline constexpr std::chrono::seconds kPatience{180};

// True once `condition` holds, which is asked again after 1 ms and then at most every `pause` (0:
// all the time); false if it does not hold within `limit`.
template <typename Condition>
bool eventually(std::chrono::nanoseconds limit, Condition condition,
                std::chrono::milliseconds pause = std::chrono::milliseconds(5)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (auto next = std::min(std::chrono::milliseconds(1), pause);;
       next = std::min(2 * next, pause)) {
    const bool is_last = std::chrono::steady_clock::now() >= end;
    if (condition()) return true;
    if (is_last) return false;
    ::poll(nullptr, 0, static_cast<int>(next.count()));
  }
}
template <typename Condition>
bool eventually(Condition condition) {
  return eventually(kPatience, condition);
}

}  // namespace dl::tests
