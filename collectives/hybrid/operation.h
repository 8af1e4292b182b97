// Operation: one collective of a HybridGroup that takes a route, as its Work.
//
// The caller makes it, the driving thread (core.h) takes its slices from lane to lane, any thread
// waits for it. All ranks agree on it first (`agreement`); only then does data move.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/hybrid/route/route.h"
#include "collectives/waiting/work.h"
#include "core/base/deadline.h"

namespace dl::collectives::hybrid {

class Core;

// A number of collectives for each lane.
using LaneCalls = std::array<std::uint64_t, kLanes>;

class Operation final : public Work {
 public:
  Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout, Route route);

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override;
  std::string_view algorithm() const noexcept override { return "slices"; }

 private:
  friend class Core;
  ~Operation() override;
  bool are_works_over() const noexcept;
  std::uint64_t sequence() const noexcept { return descriptor_.sequence; }
  // How many collectives it calls in each lane.
  LaneCalls calls() const noexcept;

  const Ref<Core> core_;
  Descriptor descriptor_;
  const Deadline deadline_;
  const std::chrono::nanoseconds timeout_;
  Ref<RefCounted> owner_;
  Ref<RefCounted> memory_;
  Ref<Work> agreement_;

  // For the driving thread. A slice's Work in each lane; null before it has begun there, and if the
  // lane has nothing to do.
  std::vector<Slice> slices_;
  std::vector<std::array<Ref<Work>, kLanes>> works_;
  bool is_agreed_ = false;
  std::array<std::size_t, kLanes> begun_{};  // slices that have begun in each lane

  // Under Core's mutex. A settled operation needs no more driving: every slice has begun in its
  // last lane, or the group is broken.
  bool is_settled_ = false;
  std::exception_ptr error_;
  std::chrono::steady_clock::time_point settled_at_{};
};

}  // namespace dl::collectives::hybrid
