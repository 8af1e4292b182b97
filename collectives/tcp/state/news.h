// News: tells threads that wait of what a group's driver hears and does.
//
// A part of Core. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <utility>

#include "collectives/waiting/group_error.h"
#include "core/base/deadline.h"
#include "core/base/mutex.h"

namespace dl::collectives::tcp {

class News {
 public:
  // Counts the peers' answers, and the break of the group.
  std::uint64_t count() const {
    const Lock lock(mutex_);
    return count_;
  }
  // Sleeps until the count differs from `known`; false if the deadline passes first.
  bool wait(std::uint64_t known, Deadline deadline) {
    Lock lock(mutex_);
    return wait_until(changed_, lock.native(), deadline,
                      [&]() DL_REQUIRES(mutex_) { return count_ != known; });
  }
  // Waits until the peers have taken everything; false if the deadline passes first.
  bool wait_until_retired(Deadline deadline) {
    Lock lock(mutex_);
    return wait_until(changed_, lock.native(), deadline,
                      [this]() DL_REQUIRES(mutex_) { return is_retired_; });
  }
  // The first rank that is gone, while no operation may need it; null: none.
  std::exception_ptr gone_rank() const noexcept {
    const Lock lock(mutex_);
    return gone_rank_;
  }

  // Driver. ---------------------------------------------------------------------------------------
  void tell() noexcept {
    const Lock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void tell_retired() noexcept {
    const Lock lock(mutex_);
    is_retired_ = true;
    changed_.notify_all();
  }
  void note_gone(Cause end) noexcept {
    const Lock lock(mutex_);
    if (!gone_rank_) gone_rank_ = std::make_exception_ptr(GroupError(std::move(end)));
  }

 private:
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ DL_GUARDED_BY(mutex_) = 0;
  std::exception_ptr gone_rank_ DL_GUARDED_BY(mutex_);
  bool is_retired_ DL_GUARDED_BY(mutex_) = false;
};

}  // namespace dl::collectives::tcp
