// Core's functions that wake sleeping peers, and sleep without missing a ring that matters
// (bell.h).
#include "collectives/shm/core/core.h"

namespace dl::collectives::shm {

void Core::published() noexcept {
  owes_settling_ = true;
  for (Peer& p : peers_) {
    if (p.block->bell.asleep.load(std::memory_order_relaxed) != 0) ring(p.block->bell);
  }
}

void Core::published_to(Peer& p) noexcept {
  owes_settling_ = true;
  if (p.block->bell.asleep.load(std::memory_order_relaxed) != 0) ring(p.block->bell);
}

void Core::settle() noexcept {
  if (!owes_settling_) return;
  full_fence();
  published();
  owes_settling_ = false;
}

bool Core::sleep(std::chrono::nanoseconds most) {
  settle();
  Bell& bell = own().bell;
  const std::uint32_t seen = bell.word.load(std::memory_order_acquire);
  bell.asleep.store(1, std::memory_order_relaxed);
  full_fence();
  const bool moved = step();
  if (!moved && has_operations()) nap(bell, seen, most);
  bell.asleep.store(0, std::memory_order_relaxed);
  return moved;
}

}  // namespace dl::collectives::shm
