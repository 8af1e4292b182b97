// Operation: one collective of a HybridGroup that takes a route, as its Work.
//
// The caller makes it, the driving thread (core.h) takes its slices from lane to lane, any thread
// waits for it. All ranks agree on it first; only then does data move.
#pragma once

#include <atomic>
#include <chrono>

#include "collectives/call/descriptor.h"
#include "collectives/hybrid/route/progress.h"
#include "collectives/tcp/group.h"
#include "collectives/waiting/work.h"

namespace dl::collectives::hybrid {

class Core;

class Operation final : public Work {
 public:
  Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout, Route route);

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override;
  std::string_view algorithm() const noexcept override { return "slices"; }

  // For Core.
  const Descriptor& descriptor() const noexcept { return descriptor_; }
  std::uint64_t sequence() const noexcept { return descriptor_.sequence; }
  const Limit& limit() const noexcept { return limit_; }
  // The caller: starts the agreement of all ranks, which gives the operation its number.
  void agree(tcp::Group& all);
  // The driving thread: advances it if all ranks have agreed; false: they have not. Throws errors
  // of the agreement and of the lanes.
  bool advance(const Lanes& lanes, Progress::Open& open);
  bool is_agreed() const noexcept { return is_agreed_; }
  const Ref<Work>& next_work() const noexcept {
    return is_agreed_ ? progress_.next_work() : agreement_;
  }
  const Progress& progress() const noexcept { return progress_; }

  // A settled operation needs no more driving: every slice has begun in its last lane, or the group
  // is broken. Only the first call counts; under Core's mutex.
  void settle(std::exception_ptr error) noexcept;
  bool is_settled() const noexcept { return is_settled_.load(std::memory_order_acquire); }
  std::exception_ptr settled_error() const noexcept { return is_settled() ? error_ : nullptr; }
  // Returns the owner of its buffers to the first call after it is over; later null.
  Ref<RefCounted> release_owner() noexcept;

 private:
  ~Operation() override;

  const Ref<Core> core_;
  Descriptor descriptor_;
  const Limit limit_;
  Ref<RefCounted> owner_;
  Ref<RefCounted> memory_;
  std::atomic<bool> is_owner_released_{false};
  Ref<Work> agreement_;

  // For the driving thread.
  Progress progress_;
  bool is_agreed_ = false;

  // Written once, before is_settled_.
  std::exception_ptr error_;
  std::chrono::steady_clock::time_point settled_at_{};
  std::atomic<bool> is_settled_{false};
};

}  // namespace dl::collectives::hybrid
