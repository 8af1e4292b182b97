// Bells: wakes the peers that sleep, and lets this rank sleep without missing a ring that matters
// (bell.h).
//
// A value, copied with the state of a rank in the model checker. For the driver only.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "collectives/shm/layout/bell.h"

namespace dl::collectives::shm {

class Bells {
 public:
  // `bells`: by rank, of all ranks.
  Bells(int rank, std::vector<Bell*> bells) : rank_(rank), bells_(std::move(bells)) {}

  // After a write: wakes the peers that sleep. published() is cheap, but may miss a peer that falls
  // asleep at this moment; settle() has a full fence and misses none.
  void published() noexcept;
  void published_to(int rank) noexcept;
  void settle() noexcept;
  bool owes_settling() const noexcept { return owes_settling_; }

  // Sleeps until a peer rings, for at most `most`. may_sleep() checks once more for something to
  // do, and prevents the sleep if it returns false.
  template <typename MaySleep>
  void sleep(std::chrono::nanoseconds most, const MaySleep& may_sleep);

 private:
  int rank_;
  std::vector<Bell*> bells_;
  bool owes_settling_ = false;
};

template <typename MaySleep>
void Bells::sleep(std::chrono::nanoseconds most, const MaySleep& may_sleep) {
  settle();
  Bell& bell = *bells_[static_cast<std::size_t>(rank_)];
  const std::uint32_t seen = bell.word.load(std::memory_order_acquire);
  bell.asleep.store(1, std::memory_order_relaxed);
  full_fence();
  if (may_sleep()) nap(bell, seen, most);
  bell.asleep.store(0, std::memory_order_relaxed);
}

}  // namespace dl::collectives::shm
