#include "collectives/shm/peers/passed_memories.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace dl::collectives::shm {

void PassedMemories::add(int rank, std::uint32_t number, UniqueFd part) {
  const Lock lock(mutex_);
  if (number <= dropped_until_) return;
  parts_.push_back({rank, number, std::move(part)});
  changed_.notify_all();
}

std::vector<UniqueFd> PassedMemories::take(std::uint32_t number, Deadline deadline) {
  std::vector<UniqueFd> taken(static_cast<std::size_t>(size_));
  Lock lock(mutex_);
  const bool are_here = wait_until(changed_, lock.native(), deadline, [&]() DL_REQUIRES(mutex_) {
    return std::ranges::count(parts_, number, &Part::number) == size_ - 1;
  });
  DL_CHECK(are_here, kTimeout,
           "group '{}': a rank did not pass on its part of a symmetric memory in time", group_);
  for (Part& part : parts_) {
    if (part.number == number) taken[static_cast<std::size_t>(part.rank)] = std::move(part.fd);
  }
  lock.unlock();
  drop(number);
  return taken;
}

void PassedMemories::drop(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  dropped_until_ = std::max(dropped_until_, number);
  std::erase_if(
      parts_, [&](const Part& part) DL_REQUIRES(mutex_) { return part.number <= dropped_until_; });
}

}  // namespace dl::collectives::shm
