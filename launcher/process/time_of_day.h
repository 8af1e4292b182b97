// The time of day, as hosts compare it: when a job began, how far two clocks are apart. The cards
// of jobs and the answers of other hosts have such times. The clocks of two hosts differ, and
// `dlrun doctor --hosts` says by how much.
//
// Thread-safety: any thread may call.
#pragma once

#include <chrono>
#include <cstdint>

namespace dl::launcher {

// Nanoseconds since 1970 by this host's clock, which may jump. To wait, use a Deadline.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace dl::launcher
