// The memory that a rank and its dlrun share for dl::should_checkpoint(): one page for each rank.
// docs/protocol.md, "Checkpoint and end", describes the protocol.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dl::rendezvous {

struct CheckpointPage {
  // Written by dlrun: 1 from the request on.
  std::atomic<std::uint64_t> requested;
  // Written by the rank: its number of calls, stored before it reads `requested`.
  std::atomic<std::uint64_t> calls;
  // Written by dlrun: 1 when it is about to send the rank a signal that ends it.
  std::atomic<std::uint64_t> ends;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kCheckpointPageBytes = 4096;
// dlrun sends this byte with the page's descriptor.
inline constexpr char kCheckpointHello = 'p';

}  // namespace dl::rendezvous
