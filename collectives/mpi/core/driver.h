// Driver: the parts of one MPI group and what moves them. Only the holder of the lock of the
// group's Core (core.h) can name it; no function blocks.
//
// The parts know only those above them here: Peers and Requests, Outgoing, Notes, then Collectives
// and Messages. A failure that a part finds is thrown, and ends here.
#pragma once

#include <string>
#include <vector>

#include "collectives/mpi/core/collectives.h"
#include "collectives/mpi/core/engine.h"
#include "collectives/mpi/core/messages.h"
#include "collectives/mpi/wire/notes.h"
#include "collectives/waiting/pending/group_status.h"
#include "collectives/waiting/wait_policy.h"

namespace dl::collectives::mpi {

class Driver {
 public:
  using Clock = Deadline::Clock;

  Driver(Engine& engine, Handle comm, std::vector<Identity> ranks, int rank, std::string name,
         std::chrono::nanoseconds warn_after, Ledger& ledger, GroupStatus& status);

  // Numbers the operation and starts it.
  void submit(const Ref<Operation>& operation, const Call& call, const Choices& choices);
  // True if anything moved.
  bool step() noexcept;
  bool has_operations() const noexcept {
    return !collectives_.under_way().empty() || !messages_.under_way().empty();
  }
  bool is_busy() const noexcept { return has_operations() || !outgoing_.is_empty(); }
  Missing missing(const Operation& operation) const;

  void abort(std::string_view reason) noexcept;
  // In a broken group: goes on telling the other ranks, as long as there is something to tell.
  void tell_more() noexcept;
  bool has_to_tell() const noexcept { return status_.is_broken() && !outgoing_.is_empty(); }
  // Fails operations under way and says goodbye. Returns false if that has happened before.
  bool leave() noexcept;
  bool is_leaving() const noexcept { return is_leaving_; }
  // True once no message is under way, or MPI keeps what is. `owner`: of this driver.
  bool close(const Ref<RefCounted>& owner);

 private:
  // Breaks the group; the first cause counts. `tells`: the other ranks do not know it yet.
  void fail(Cause cause, bool tells = true) noexcept;
  void read_notes(bool& moved);
  void look_at_leavers();
  void look_at_clocks(Clock::time_point now);
  void look_at_clock(Operation& operation, Clock::time_point now);
  // Ends an operation by the first cause.
  void end(Ref<Operation> operation) noexcept;
  template <typename F>
  void guarded(const F& run) noexcept;

  Engine& engine_;
  const std::string name_;
  const std::chrono::nanoseconds warn_after_;
  Ledger& ledger_;
  GroupStatus& status_;

  Peers peers_;
  Requests requests_;
  Outgoing outgoing_;
  Notes notes_;
  Collectives collectives_;
  Messages messages_;

  std::uint64_t rounds_ = 0;
  Clock::time_point timer_ = Clock::time_point::max();  // of the next look at the clocks
  bool is_leaving_ = false;
  Clock::time_point leave_by_{};
};

}  // namespace dl::collectives::mpi
