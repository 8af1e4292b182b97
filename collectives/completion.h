// The end of an operation, as seen by those who wait for it: a one-way door with an atomic in
// front, so that is_over() is one load. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/deadline.h"

namespace dl::collectives {

class Completion {
 public:
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
  // Of what is over and went wrong; otherwise null.
  std::exception_ptr error() const noexcept { return is_over() ? error_ : nullptr; }
  std::optional<std::chrono::steady_clock::time_point> at() const noexcept {
    return is_over() ? std::optional(at_) : std::nullopt;
  }

  // Ends the operation, well where `error` is null. Called once.
  void end(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    at_ = std::chrono::steady_clock::now();
    is_over_.store(true, std::memory_order_release);
    over_.notify_all();
  }

  // Sleeps until the operation is over; false: the deadline passed first.
  bool wait_until(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return dl::wait_until(over_, lock, deadline, [this] { return is_over(); });
  }

 private:
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::condition_variable over_;
  std::exception_ptr error_;                  // these two are written before is_over_
  std::chrono::steady_clock::time_point at_;  // and never after
};

}  // namespace dl::collectives
