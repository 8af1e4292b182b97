// Pending: what a caller of a ShmGroup waits for, as its Work; Operation: one that is a collective
// (message.h: a send or a receive).
//
// The caller fills it, the group's driver (core.h) carries it out, anybody waits for it. Fields
// below "driver" are touched only by whoever drives; the completion is a one-way door with an
// atomic in front.
#pragma once

#include <atomic>
#include <optional>

#include "collectives/descriptor.h"
#include "collectives/record/recorder.h"
#include "collectives/shm/layout.h"
#include "collectives/shm/memories.h"
#include "collectives/shm/plan.h"
#include "collectives/wait_policy.h"
#include "collectives/work.h"
#include "core/base/deadline.h"

namespace dl::collectives::shm {

class Core;

class Pending : public Work {
 public:
  Pending(Ref<Core> core, const Descriptor& what, std::chrono::nanoseconds timeout,
          Ref<RefCounted> owner) noexcept;

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override;

  bool is_over() const noexcept { return done_.load(std::memory_order_acquire) != 0; }
  // Sleeps until the operation is over or the deadline has passed; wakes without cause, too.
  void sleep_until(Deadline deadline);
  // It holds what is to be let go on a caller's thread.
  virtual bool has_owner() const noexcept { return static_cast<bool>(owner_); }

  // Driver. ---------------------------------------------------------------------------------------
  // Ends the operation, well where `error` is null. `now`: the recorder's ticks.
  void end(std::exception_ptr error, std::uint64_t now) noexcept;

  Descriptor descriptor;
  std::uint32_t hash = 0;
  record::Slot* slot = nullptr;  // of the flight recorder

  // The clock is first read when the operation is first found waiting.
  const std::chrono::nanoseconds timeout;
  std::optional<Deadline::Clock::time_point> begin{};
  Questions questions{};    // whether the peers are there
  bool has_warned = false;  // for whom it waits

 protected:
  ~Pending() override = default;

 private:
  Ref<Core> core_;
  Ref<RefCounted> owner_;
  // Written before done_, and not after it.
  std::exception_ptr error_;
  std::uint64_t completed_at_ = 0;  // the recorder's ticks
  // Sequentially consistent with each other: either the end sees a sleeper, or the sleeper the end.
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

class Operation final : public Pending {
 public:
  Operation(Ref<Core> core, const Descriptor& what, std::chrono::nanoseconds timeout,
            Ref<RefCounted> owner, const void* input, Parts&& gives, void* output,
            Parts&& takes) noexcept;

  // Nothing before the ranks have agreed on it.
  std::string_view algorithm() const noexcept override {
    return is_over() ? name_of(plan.path) : std::string_view();
  }
  bool has_owner() const noexcept override { return Pending::has_owner() || memory; }

  // Driver. ---------------------------------------------------------------------------------------
  const OpKind kind;  // the descriptor's, a v-variant as its sister
  Plan plan{};
  const std::byte* const input;
  const Parts gives;  // of the input, to each rank
  std::byte* const output;
  const Parts takes;  // of the output, from each rank
  // Where the buffer that others may reach lies in symmetric memory: there. Set before it is
  // queued.
  Ref<Mapped> memory{};
  Claim claim{};

  // How far it is. Chunks are counted from the operation's first, which is `first_chunk` of the
  // group.
  bool is_posted = false;
  int next_to_agree = 0;  // ranks below have called the same
  std::uint64_t first_chunk = 0;
  std::size_t staged = 0;
  std::size_t reduced = 0;
  std::size_t copied = 0;
  bool has_claims = false;  // some rank's buffer is symmetric: flags do not say what is staged
  std::size_t worked = 0;   // direct path: elements of the own share of the work
  bool is_worked_out = false;
};

}  // namespace dl::collectives::shm
