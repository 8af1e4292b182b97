// Pending: the PendingWork of a ShmGroup. Operation: a Pending that is a collective (message.h has
// sends and receives).
#pragma once

#include <optional>

#include "collectives/shm/layout/layout.h"
#include "collectives/shm/layout/plan.h"
#include "collectives/shm/segment/memories.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::shm {

class Core;

class Pending : public PendingWork {
 public:
  // The wait begins when the operation is first found waiting.
  Pending(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout) noexcept;

  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override;

  // Driver: ends the operation; null `error`: success. `now`: the recorder's ticks.
  void end(std::exception_ptr error, std::uint64_t now) noexcept;

 protected:
  ~Pending() override = default;

 private:
  Ref<Core> core_;
  std::uint64_t over_at_ = 0;  // the recorder's ticks; written before the end
};

class Operation final : public Pending {
 public:
  Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);

  // Empty until the operation is over: the ranks may still have to agree on the path.
  std::string_view algorithm() const noexcept override {
    return is_over() ? name_of(plan.path) : std::string_view();
  }
  bool has_owner() const noexcept override { return Pending::has_owner() || memory; }

  // Driver. ---------------------------------------------------------------------------------------
  const OpKind kind;  // the descriptor's; for a v-variant that of its fixed-count form
  Plan plan{};
  const std::byte* const input;
  const Parts gives;  // parts of the input, to each rank
  std::byte* const output;
  const Parts takes;  // parts of the output, from each rank
  // The symmetric memory that contains the buffer other ranks may access, if any. Set before the
  // operation is queued.
  Ref<Mapped> memory{};
  Claim claim{};

  // Progress. Chunks are counted from the operation's first chunk, which is number `first_chunk` of
  // the group.
  bool is_posted = false;
  int next_to_agree = 0;  // all lower ranks have called the same operation
  std::uint64_t first_chunk = 0;
  std::size_t staged = 0;
  std::size_t reduced = 0;
  std::size_t copied = 0;
  bool has_claims = false;  // some rank's buffer is symmetric: flags do not tell what is staged
  std::size_t worked = 0;   // direct path: elements of this rank's share that are done
  bool is_worked_out = false;
};

}  // namespace dl::collectives::shm
