// PassedMemories: the parts of symmetric memories that the other ranks have passed to this one and
// that no call has taken yet.
//
// The progress thread adds them; calls take them. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::shm {

class PassedMemories {
 public:
  // `group`: for errors. `size`: its number of ranks.
  PassedMemories(std::string group, int size) : group_(std::move(group)), size_(size) {}

  void add(int rank, std::uint32_t number, UniqueFd part);
  // The other ranks' parts of a memory, by rank, once all have been passed. Throws kTimeout.
  std::vector<UniqueFd> take(std::uint32_t number, Deadline deadline);
  // Releases all parts up to this number. Parts that arrive later are released at once.
  void drop(std::uint32_t number) noexcept;

 private:
  struct Part {
    int rank;
    std::uint32_t number;
    UniqueFd fd;
  };

  const std::string group_;
  const int size_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part> parts_ DL_GUARDED_BY(mutex_);
  std::uint32_t dropped_until_ DL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dl::collectives::shm
