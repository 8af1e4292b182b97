// A point in time by which something must have happened. Every wait for another process takes one.
//
// A Deadline is a value. The outermost call makes it once and passes it down, so that a call of
// five steps takes no longer than its one timeout. If the process was stopped meanwhile, the
// deadline moves later by that time (core/base/system/process/stopped.h says which stops count).
#pragma once

#include <pthread.h>

#include <chrono>

#include "core/base/mutex.h"

namespace dl::detail {

// A sum that saturates: max() plus anything stays max().
constexpr std::chrono::nanoseconds saturating_add(std::chrono::nanoseconds a,
                                                  std::chrono::nanoseconds b) noexcept {
  constexpr auto kMost = std::chrono::nanoseconds::max();
  constexpr auto kLeast = std::chrono::nanoseconds::min();
  if (b.count() > 0 && a > kMost - b) return kMost;
  if (b.count() < 0 && a < kLeast - b) return kLeast;
  return a == kMost || b == kMost ? kMost : a + b;
}

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `span` from now; has passed already if `span` is zero or less. If `span` is too long for the
  // clock, this is never().
  static Deadline after(std::chrono::nanoseconds span) noexcept;
  static Deadline at(Clock::time_point when) noexcept;
  static Deadline never() noexcept { return {Clock::time_point::max(), {}}; }

  bool is_never() const noexcept { return when_ == Clock::time_point::max(); }
  bool has_passed() const noexcept { return !is_never() && has_passed(Clock::now()); }
  // For a caller that has just read the clock.
  bool has_passed(Clock::time_point now) const noexcept { return now >= when(now); }
  // The current expiry. A SIGSTOP moves it later: after you have waited until it, ask has_passed().
  Clock::time_point when() const noexcept { return is_never() ? when_ : when(Clock::now()); }

  // Time left, zero once passed, nanoseconds::max() for never().
  std::chrono::nanoseconds left() const noexcept;
  // The timeout that poll() and epoll_wait() take: milliseconds rounded up, -1 for never().
  int poll_timeout() const noexcept;

  static Deadline earlier(Deadline a, Deadline b) noexcept;

 private:
  Deadline(Clock::time_point when, std::chrono::nanoseconds stopped_before) noexcept
      : when_(when), stopped_before_(stopped_before) {}
  Clock::time_point when(Clock::time_point now) const noexcept;

  Clock::time_point when_;                   // as given; when() adds the stops since then
  std::chrono::nanoseconds stopped_before_;  // the process's stops before this was made, in total
};

// condition.wait(lock). libstdc++ has that member as a symbol that only GCC 12's library and later
// ones define, and programs shall run with an older one.
template <typename Condition, typename UniqueLock>
void wait_for_change(Condition& condition, UniqueLock& lock) DL_NO_THREAD_SAFETY_ANALYSIS {
  ::pthread_cond_wait(condition.native_handle(), lock.mutex()->native_handle());
}

// Waits on a condition variable until is_done(). Returns false if the deadline passes first.
template <typename Condition, typename UniqueLock, typename Predicate>
bool wait_until(Condition& condition, UniqueLock& lock, Deadline deadline,
                const Predicate& is_done) DL_NO_THREAD_SAFETY_ANALYSIS {
  while (!is_done()) {
    if (deadline.is_never()) {
      wait_for_change(condition, lock);
    } else if (deadline.has_passed()) {
      return false;
    } else {
      condition.wait_until(lock, deadline.when());
    }
  }
  return true;
}

}  // namespace dl::detail

// These namespaces use Deadline and wait_until() without `detail::`. dl:: itself has names for
// users only.
namespace dl::collectives {
using dl::detail::Deadline;
using dl::detail::wait_until;
}  // namespace dl::collectives
namespace dl::data {
using dl::detail::Deadline;
using dl::detail::wait_until;
}  // namespace dl::data
namespace dl::rendezvous {
using dl::detail::Deadline;
using dl::detail::wait_until;
}  // namespace dl::rendezvous
