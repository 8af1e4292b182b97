// The end of an operation, for threads that wait for it. It is set once, and is_over() is one
// atomic load. Any thread.
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
  // The error of an operation that failed, else null.
  std::exception_ptr error() const noexcept { return is_over() ? error_ : nullptr; }
  std::optional<std::chrono::steady_clock::time_point> at() const noexcept {
    return is_over() ? std::optional(at_) : std::nullopt;
  }

  // Ends the operation; null `error`: success. Called once.
  void end(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    at_ = std::chrono::steady_clock::now();
    is_over_.store(true, std::memory_order_release);
    over_.notify_all();
  }

  // Sleeps until the operation is over (true) or the deadline passes (false).
  bool wait_until(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return dl::detail::wait_until(over_, lock, deadline, [this] { return is_over(); });
  }

 private:
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::condition_variable over_;
  std::exception_ptr error_;  // error_ and at_ are written before is_over_ is set
  std::chrono::steady_clock::time_point at_;
};

}  // namespace dl::collectives
