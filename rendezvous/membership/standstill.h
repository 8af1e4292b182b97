// Tells a process that it stood still: it was stopped by a signal, or its machine was paused or
// suspended. The process must not blame others for messages that it missed in that time.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "core/base/deadline.h"

namespace dl::rendezvous {

// How long this machine has been suspended since boot. Deadline's clock does not count this time.
std::chrono::nanoseconds time_suspended() noexcept;

// Compares readings of the clock. One thread at a time.
class Standstill {
 public:
  using Time = Deadline::Clock::time_point;
  using Span = std::chrono::nanoseconds;

  // A running process calls look() at least every `most`, and late by less than `slack`.
  Standstill(Span most, Span slack) noexcept : most_(most), slack_(slack) {}

  // How long this process did not run since the last call, without suspension; 0 if it ran.
  // `suspended`: time_suspended(). The caller extends the deadlines of others' messages by the
  // result.
  Span look(Time now, Span suspended) noexcept {
    const bool first = !last_;
    const Span gap = first ? Span(0) : now - *last_;
    const Span asleep = first ? Span(0) : suspended - suspended_;
    last_ = now;
    suspended_ = suspended;
    const Span stood = gap > most_ + slack_ ? gap - most_ : Span(0);
    if (stood + asleep > slack_) {
      ended_ = now;
      length_ = stood + asleep;
      is_news_ = true;
    }
    return stood;
  }
  // Returns the length of a new standstill of at least `least`, once.
  std::optional<std::chrono::seconds> news(Span least) noexcept {
    if (!std::exchange(is_news_, false) || length_ < least) return std::nullopt;
    return std::chrono::round<std::chrono::seconds>(length_);
  }
  // The length of a standstill of at least `least` that ended at most `ago` before `now`.
  std::optional<std::chrono::seconds> recent(Time now, Span least, Span ago) const noexcept {
    if (!ended_ || length_ < least || now - *ended_ > ago) return std::nullopt;
    return std::chrono::round<std::chrono::seconds>(length_);
  }

 private:
  Span most_, slack_;
  std::optional<Time> last_, ended_;
  Span suspended_{0}, length_{0};
  bool is_news_ = false;
};

}  // namespace dl::rendezvous
