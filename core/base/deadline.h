// A point in time by which something must have happened. Every wait in dlrun takes one.
//
// A Deadline is a value; it is made once, at the edge of the program, and handed down, so that a
// call that does five things takes no longer than it was given for all of them.
#pragma once

#include <chrono>

namespace dl {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `span` from now; a span of zero or less has already passed. Spans too long for the clock mean
  // never().
  static Deadline after(std::chrono::nanoseconds span) noexcept;
  static Deadline at(Clock::time_point when) noexcept { return Deadline(when); }
  static Deadline never() noexcept { return Deadline(Clock::time_point::max()); }

  bool is_never() const noexcept { return when_ == Clock::time_point::max(); }
  bool has_passed() const noexcept { return !is_never() && Clock::now() >= when_; }
  Clock::time_point when() const noexcept { return when_; }

  // Time left, zero once passed, nanoseconds::max() for never().
  std::chrono::nanoseconds left() const noexcept;
  // The timeout that poll() and epoll_wait() take: milliseconds rounded up, -1 for never().
  int poll_timeout() const noexcept;

  static Deadline earlier(Deadline a, Deadline b) noexcept { return a.when_ < b.when_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point when) noexcept : when_(when) {}
  Clock::time_point when_;
};

}  // namespace dl
