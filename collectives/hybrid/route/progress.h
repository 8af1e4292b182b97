// Progress: how far an operation has come through the lanes of a hybrid group, with its Works
// there.
//
// For the driving thread until every slice has begun in its last lane; after that for any thread.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/hybrid/route/route.h"
#include "core/base/deadline.h"

namespace dl::collectives::hybrid {

// A number of collectives for each lane.
struct LaneCalls {
  std::array<std::uint64_t, kLanes> in{};  // by Lane
  LaneCalls& operator+=(const LaneCalls& other) noexcept;
  LaneCalls& operator-=(const LaneCalls& other) noexcept;
};

// Null in a lane: this rank has nothing to do there.
using Lanes = std::array<Ref<ProcessGroup>, kLanes>;

// Deadlines of an operation's parts: the agreement times out at the operation's deadline, each lane
// a `step` after the one before it. Ranks are probed `answer` before the deadline.
struct Stagger {
  explicit Stagger(std::chrono::nanoseconds timeout) noexcept;

  // The timeout of a lane if `left` of the operation's own time is left.
  std::chrono::nanoseconds of(Lane lane, std::chrono::nanoseconds left) const noexcept;

  std::chrono::nanoseconds step, answer;
};

// The timeout of an operation, which began when the operation was called.
struct Limit {
  explicit Limit(std::chrono::nanoseconds time) noexcept
      : timeout(time), deadline(Deadline::after(time)) {}
  std::chrono::nanoseconds timeout;
  Deadline deadline;
};

// Throws the work's error. True for null.
bool is_over(const Ref<Work>& work);

class Progress {
 public:
  explicit Progress(std::vector<Slice> slices)
      : slices_(std::move(slices)), works_(slices_.size()) {}

  // True for a lane in which all slices of all earlier operations have begun. The lane kIn is
  // always open.
  struct Open {
    bool cross = true;
    bool out = true;
  };
  // Begins the slices that need no waiting. Throws what the lanes throw, and errors of the works.
  void advance(const Lanes& lanes, const Limit& limit, Open& open);
  // Every slice has begun in its last lane.
  bool has_begun() const noexcept { return begun_[kOut] == slices_.size(); }
  // What has to be over before advance() can go on.
  const Ref<Work>& next_work() const noexcept;

  // How many collectives it calls in each lane.
  LaneCalls calls() const noexcept;
  bool are_works_over() const noexcept;
  // The first error of a work, if any.
  std::exception_ptr error() const noexcept;
  // When the last work was over; at least `least`.
  std::chrono::steady_clock::time_point completed_at(
      std::chrono::steady_clock::time_point least) const noexcept;
  template <typename F>
  void for_each_work(const F& call) const {
    for (const auto& lanes : works_) {
      for (const Ref<Work>& work : lanes) {
        if (work) call(work);
      }
    }
  }

 private:
  static constexpr auto kIn = static_cast<std::size_t>(Lane::kIn);
  static constexpr auto kCross = static_cast<std::size_t>(Lane::kCross);
  static constexpr auto kOut = static_cast<std::size_t>(Lane::kOut);

  void begin(const Lanes& lanes, const Limit& limit, Lane lane);

  std::vector<Slice> slices_;
  // A slice's Work in each lane; null before it has begun there, and if the lane has nothing to do.
  std::vector<std::array<Ref<Work>, kLanes>> works_;
  std::array<std::size_t, kLanes> begun_{};  // slices that have begun in each lane
};

}  // namespace dl::collectives::hybrid
