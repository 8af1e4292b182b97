// HelperWatch: notices that dlrun-rendezvous stands still, from its answers to dlrun's beats. The
// service on another node would blame the network, and could not reach this node.
//
// A state machine without clocks. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace dl::launcher {

class HelperWatch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class News : std::uint8_t { kNone, kSilent, kGoesOn, kLost };

  static constexpr std::chrono::seconds kNamedAfter{5};
  // Before the service gives the node up, which takes 10 s: this node knows the cause better.
  static constexpr std::chrono::seconds kLostAfter{8};

  // `every`: the time between two calls of look().
  explicit HelperWatch(Clock::duration every) : every_(every) {}

  // Silence counts from the first answer: before it, the helper connects.
  void answered(Clock::time_point now) { heard_ = now; }
  News look(Clock::time_point now) {
    const Clock::duration late = last_ ? now - *last_ - every_ : Clock::duration(0);
    last_ = now;
    if (!heard_) return News::kNone;
    // Time in which dlrun itself did not run does not count as the helper's silence.
    if (late > every_) heard_ = std::min(now, *heard_ + late);
    const Clock::duration silence = now - *heard_;
    if (silence >= kLostAfter) {
      heard_.reset();
      return News::kLost;
    }
    const bool is_silent = silence >= kNamedAfter;
    if (std::exchange(was_silent_, is_silent) == is_silent) return News::kNone;
    return is_silent ? News::kSilent : News::kGoesOn;
  }

 private:
  Clock::duration every_;
  std::optional<Clock::time_point> heard_;  // nullopt: it is not watched
  std::optional<Clock::time_point> last_;   // look()
  bool was_silent_ = false;
};

}  // namespace dl::launcher
