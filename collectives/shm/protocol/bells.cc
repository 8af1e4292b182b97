#include "collectives/shm/protocol/bells.h"

namespace dl::collectives::shm {

void Bells::published() noexcept {
  owes_settling_ = true;
  for (Bell* const bell : bells_) {
    if (bell->asleep.load(std::memory_order_relaxed) != 0) ring(*bell);
  }
}

void Bells::published_to(int rank) noexcept {
  owes_settling_ = true;
  Bell& bell = *bells_[static_cast<std::size_t>(rank)];
  if (bell.asleep.load(std::memory_order_relaxed) != 0) ring(bell);
}

void Bells::settle() noexcept {
  if (!owes_settling_) return;
  full_fence();
  published();
  owes_settling_ = false;
}

}  // namespace dl::collectives::shm
