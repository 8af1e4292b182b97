// Status: how far a group has come, and the first cause that broke it.
//
// A part of Core. The driver writes it, any thread reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

#include "collectives/call/descriptor.h"
#include "collectives/tcp/state/membership.h"
#include "collectives/waiting/group_error.h"
#include "core/base/mutex.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::tcp {

class Status {
 public:
  explicit Status(const Membership& group) : group_(group) {}

  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  bool is_broken() const noexcept { return is_broken_.load(std::memory_order_acquire); }
  // The first cause; null if the group works.
  std::exception_ptr error() const noexcept;
  void throw_if_broken() const;
  // Why this operation, as number `sequence`, is refused; null: it is not. A broken group accepts
  // collectives up to completes_until(). After a mismatch the refused call is reported.
  std::exception_ptr refusal(const Descriptor& called, std::uint64_t sequence) const;
  std::exception_ptr gone_rank() const;
  // After a mismatch: the operation that this rank has called under that sequence number.
  std::string own_call() const;
  // The last collective that is complete on this rank, and the last one that the broken group still
  // completes (ProcessGroup::fail).
  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  std::uint64_t completes_until() const noexcept { return completes_until_.load(); }

  // Driver. ---------------------------------------------------------------------------------------
  void complete(std::uint64_t sequence) noexcept { completed_ = sequence; }
  // True if the group is broken and no collective completes any more.
  bool is_closed() const noexcept {
    return is_broken() && completed_ >= completes_until_.load(std::memory_order_relaxed);
  }
  void break_with(const Cause& cause, std::string own_call, std::uint64_t completes_until);
  // In a broken group: collectives up to this number only, and no fewer than are complete.
  void complete_only(std::uint64_t until) noexcept;
  // The first rank that is gone, while no operation may need it.
  void note_gone(Cause end);

 private:
  const Membership& group_;
  const ForkMark fork_mark_{};
  mutable Mutex mutex_;
  std::exception_ptr error_ DL_GUARDED_BY(mutex_);
  std::exception_ptr gone_rank_ DL_GUARDED_BY(mutex_);
  std::string own_call_ DL_GUARDED_BY(mutex_);
  std::atomic<bool> is_broken_{false};
  std::atomic<std::uint64_t> completes_until_{0};  // written before is_broken_
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace dl::collectives::tcp
