// Finished: ends operations, and keeps those whose owners may run users' code until a caller's
// thread releases them.
//
// Owned by the Core. The driver ends operations; any thread releases them.
#pragma once

#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "collectives/shm/driver/operation.h"
#include "collectives/shm/driver/records.h"
#include "core/base/mutex.h"

namespace dl::collectives::shm {

class Finished {
 public:
  explicit Finished(Records& records) : records_(records) {}

  // Ends an operation that no queue holds any more; null `error`: success.
  void end(Ref<Pending> over, std::exception_ptr error) noexcept {
    const std::uint64_t now = records_.clock().now();
    record::GroupRecorder& log = records_.log();
    error ? log.fail(over->slot, now) : log.finish(over->slot, now);
    if (!over->has_owner()) {
      over->end(std::move(error), now);
      return;
    }
    // A thread that sees the operation over will find it here and release its owner.
    const Lock lock(mutex_);
    has_any_.store(true, std::memory_order_release);
    over->end(std::move(error), now);
    finished_.push_back(std::move(over));
  }

  void release() {
    if (!has_any_.load(std::memory_order_acquire)) return;
    std::vector<Ref<Pending>> over;  // outlives the lock
    const Lock lock(mutex_);
    has_any_.store(false, std::memory_order_relaxed);
    over.swap(finished_);
  }

 private:
  Records& records_;
  Mutex mutex_;
  std::vector<Ref<Pending>> finished_ DL_GUARDED_BY(mutex_);
  std::atomic<bool> has_any_{false};
};

}  // namespace dl::collectives::shm
