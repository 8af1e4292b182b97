// PendingWork: the Work of an operation in a group that moves data on the host.
//
// The caller makes it, the driver of its group runs it, any thread waits for it. Fields below
// "Driver" belong to the driver. The driver ends it once; other threads read this through an
// atomic.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "collectives/call/call.h"
#include "collectives/record/clock.h"
#include "collectives/record/format.h"
#include "collectives/waiting/judge/judge.h"
#include "collectives/waiting/work.h"
#include "core/base/deadline.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives {

class PendingWork : public Work {
 public:
  void wait(Stream stream) override;
  std::exception_ptr error() const noexcept override { return is_over() ? error_ : nullptr; }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return is_over() ? std::optional(record::tick_time().time_of(over_at_)) : std::nullopt;
  }

  void watch(Ref<Alarm> alarm) override;

  // is_completed(), without driving anything.
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire) != 0; }
  // Sleeps until it is over (true) or the deadline has passed (false).
  bool sleep_until(Deadline deadline) noexcept;
  // True if its last Ref must be dropped on a caller's thread, because it owns an object whose end
  // may run users' code or wait for the driver.
  virtual bool has_owner() const noexcept { return static_cast<bool>(owner_); }

  // Driver. ---------------------------------------------------------------------------------------
  Descriptor descriptor;
  std::uint32_t hash = 0;
  record::Slot* slot = nullptr;  // in the flight recorder, until the operation is over
  Waiting waiting;
  // The report that stood when the operation was called (rendezvous::report_recovery()).
  const std::uint32_t reported = rendezvous::standing_report();
  // Ends the operation (see Ledger); null `error`: success. `now`: the recorder's ticks. Called
  // once, by a thread that holds a Ref.
  // Inline, because the smallest operations take a quarter of a microsecond.
  void end(std::exception_ptr error, std::uint64_t now) noexcept {
    error_ = std::move(error);
    over_at_ = now;
    is_over_.store(1);
    if (sleepers_.load() > 0) wake_sleepers();
  }

 protected:
  // `backend`: of static lifetime, for errors.
  PendingWork(std::string_view backend, const Call& call, std::chrono::nanoseconds timeout) noexcept
      : descriptor(call.what),
        waiting(timeout),
        backend_(backend),
        owner_(call.options->keep_alive) {}
  ~PendingWork() override;

 private:
  struct Watch;

  void wake_sleepers() noexcept;
  void ring_alarms() noexcept;

  const std::string_view backend_;
  const Ref<RefCounted> owner_;
  // Written before is_over_.
  std::exception_ptr error_;
  std::uint64_t over_at_ = 0;  // the recorder's ticks
  // Sequentially consistent with each other: either end() sees a sleeper, or the sleeper sees the
  // end.
  std::atomic<std::uint32_t> is_over_{0};
  std::atomic<std::uint32_t> sleepers_{0};  // a watch counts as one that does not wake
  std::atomic<Watch*> watches_{nullptr};
};

// A send or recv. `Operation`: the PendingWork of its group.
template <typename Operation>
class MessageOf : public Operation {
 public:
  // `group`: what Operation's constructor takes before the call.
  template <typename... Group>
  explicit MessageOf(const Call& call, std::chrono::nanoseconds timeout, Group... group)
      : Operation(std::move(group)..., call, timeout),
        peer(call.peer),
        buffer(static_cast<std::byte*>(call.memory())),
        bytes(call.what.count * size_of(call.what.dtype)) {}

  // The other rank. In place of kAnySource the driver writes the source when a message matches.
  int peer;
  std::byte* const buffer;  // a send only reads it
  const std::size_t bytes;
  std::size_t moved = 0;  // driver

  bool is_send() const noexcept { return this->descriptor.op == OpKind::kSend; }
  std::uint32_t tag() const noexcept { return static_cast<std::uint32_t>(this->descriptor.root); }
  std::optional<int> source() const noexcept override {
    if (is_send() || !this->is_over() || this->error() != nullptr) return std::nullopt;
    return peer;
  }
};

}  // namespace dl::collectives
