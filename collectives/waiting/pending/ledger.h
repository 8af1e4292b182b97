// Ledger: notes the begin and the end of a group's operations in the flight recorder, and wakes the
// threads that wait for the end.
//
// A part of a group's Core. The driver begins and ends operations. Operations
// with an owner (PendingWork::has_owner) are kept until release() drops them on a caller's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/record/recorder.h"
#include "collectives/waiting/pending/pending_work.h"
#include "core/base/mutex.h"

namespace dl::collectives {

class GroupStatus;

class Ledger {
 public:
  // Null `recorder`: nothing is recorded.
  Ledger(const std::shared_ptr<record::Recorder>& recorder,
         const record::Recorder::GroupOptions& group) {
    if (recorder) log_ = recorder->add_group(group);
  }
  // Before the first operation: the state of the group, which lives as long as this object.
  void set_status(const GroupStatus& status) noexcept { status_ = &status; }

  // Any thread, as recorder.h says.
  record::GroupRecorder& log() noexcept { return log_; }
  // Caller's thread: drops the operations that end() has kept.
  void release();

  // Driver: it has begun to work on the operation.
  void begin(const PendingWork& operation);
  // Driver: ends an operation; null `error`: success. Only the first end counts. `operation` is the
  // driver's last Ref: another thread may drop all others before this returns.
  void end(Ref<PendingWork> operation, std::exception_ptr error) noexcept;

 private:
  void tell_recovery(const PendingWork& operation) const noexcept;

  record::GroupRecorder log_;
  const GroupStatus* status_ = nullptr;
  const record::TickTime& clock_ = record::tick_time();
  std::vector<std::pair<const char*, std::uint8_t>> algorithms_;  // their numbers in the recorder
  Mutex mutex_;
  std::vector<Ref<PendingWork>> over_ DL_GUARDED_BY(mutex_);
  std::atomic<bool> has_any_{false};
};

// end() and release() are inline because the smallest operations take a quarter of a microsecond.

inline void Ledger::end(Ref<PendingWork> operation, std::exception_ptr error) noexcept {
  if (operation->is_over()) return;
  const std::uint64_t now = clock_.now();
  error ? log_.fail(operation->slot, now) : log_.finish(operation->slot, now);
  if (operation->reported != 0 && !error) tell_recovery(*operation);
  if (!operation->has_owner()) {
    operation->end(std::move(error), now);
    return;
  }
  // Under the lock, so that a thread that sees the operation over finds it here and drops it.
  const Lock lock(mutex_);
  has_any_.store(true, std::memory_order_release);
  operation->end(std::move(error), now);
  over_.push_back(std::move(operation));
}

inline void Ledger::release() {
  if (!has_any_.load(std::memory_order_acquire)) return;
  std::vector<Ref<PendingWork>> over;  // outlives the lock
  const Lock lock(mutex_);
  has_any_.store(false, std::memory_order_relaxed);
  over.swap(over_);
}

}  // namespace dl::collectives
