// Operations: the operations of a hybrid group that are under way, in order. Also the cause that
// broke the group, and the last operation that still completes (ProcessGroup::fail).
//
// Waits for nothing and calls no group. Guarded by Core's mutex.
#pragma once

#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "collectives/hybrid/operation.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives::hybrid {

class Operations {
 public:
  bool is_empty() const noexcept { return queue_.empty(); }
  const Operation& front() const noexcept { return *queue_.front(); }
  std::vector<Ref<Operation>> unsettled() const { return {queue_.begin(), queue_.end()}; }
  void add(Ref<Operation> operation) { queue_.push_back(std::move(operation)); }
  // Settles the operations that need no more driving.
  void settle_begun();

  // Operations before a settled one are settled too.
  bool are_earlier_over(const Operation& op) const noexcept;
  std::vector<Ref<Operation>> settled_before(const Operation& op) const;
  // The operations that are not over.
  std::vector<Ref<Work>> under_way() const;
  // Removes the settled operations; `all` is false: only those whose works are over.
  std::vector<Ref<Operation>> take_settled(bool all);

  // Adds an operation's collectives before it has a number: an abort that arrives meanwhile may
  // let it complete in the lanes.
  void count(const LaneCalls& calls) noexcept { calls_ += calls; }
  void discount(const LaneCalls& calls) noexcept { calls_ -= calls; }
  void set_calls(Lane lane, std::uint64_t calls) noexcept {
    calls_.in[static_cast<std::size_t>(lane)] = calls;
  }

  const std::optional<Cause>& cause() const noexcept { return cause_; }
  const std::exception_ptr& error() const noexcept { return error_; }
  std::uint64_t completes_until() const noexcept { return completes_until_; }
  bool completes(const Operation& op) const noexcept { return op.sequence() <= completes_until_; }
  void fail(const Cause& cause, std::uint64_t completes_until);
  // Lowers completes_until(); false if that changes nothing.
  bool complete_only(std::uint64_t until) noexcept;
  // The last operation that is over together with all earlier ones; `agreed`: the last one that all
  // ranks have agreed on.
  std::uint64_t completed(std::uint64_t agreed) const noexcept;
  // How many collectives of each lane still complete.
  LaneCalls completing_calls() const noexcept;
  // Ends every operation behind completes_until(). No thread may drive.
  void end_all();

 private:
  void settle(Ref<Operation> op, std::exception_ptr error);

  std::deque<Ref<Operation>> queue_;      // not settled
  std::vector<Ref<Operation>> finished_;  // settled; their owners are released on a caller's thread
  LaneCalls calls_;                       // by all operations that were called
  std::optional<Cause> cause_;
  std::exception_ptr error_;           // cause_
  std::uint64_t completes_until_ = 0;  // if the group is broken
};

}  // namespace dl::collectives::hybrid
