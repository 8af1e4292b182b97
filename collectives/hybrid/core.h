// Core: drives the operations of a hybrid group, and breaks all inner groups if one of them fails.
// Its parts do not know it: Inner (the groups), Operations (those under way, and the cause of a
// failure), and each operation's Progress through the lanes.
//
// A thread drives an operation by taking its slices from one lane to the next. A thread that waits
// for an operation drives it; otherwise the group's progress thread takes over after a millisecond.
// One thread drives at a time; while it waits in an inner group, it drives that group (shm_group.h,
// tcp_group.h). It waits for the first operation only, and advances later ones as far as they go
// without waiting. So no operation waits for a later one, which another rank may not have called.
//
// Before any data moves, the group of all ranks agrees on the operation: it compares the
// descriptors and numbers the operation. So it finds calls that differ, even if they would take
// different routes.
//
// An error of one inner group breaks them all, which also ends waits in the others. The operation's
// error quotes the inner error. Deadlines are staggered (Stagger): first the agreement's, then each
// lane's, up to 10 ms after the one before. The earlier lane must time out first. Otherwise a rank
// in a later lane would blame a rank that is itself held up in the earlier lane. Shortly before the
// deadline all ranks are probed: a rank that does not answer is blamed before one that has not
// called.
//
// After a failure some operations still complete (`completes_until`, ProcessGroup::fail). The rank
// that finds the failure tells the number of the last such operation to the group of all ranks. It
// tells each lane how many of its collectives still complete. A rank that hears of the failure in a
// lane does not know the number yet: the operation that failed there ends, and earlier ones go on
// until the number arrives or they fail too. If the group of all ranks finds the failure itself,
// all operations that were agreed on go on. One that waits in a lane for a dead peer fails there.
//
// Thread-safety: any member from any thread.
#pragma once

#include <condition_variable>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/hybrid/inner.h"
#include "collectives/hybrid/operations.h"
#include "collectives/process/at_exit.h"
#include "core/base/mutex.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::hybrid {

class Core final : public RefCounted {
 public:
  // Starts the progress thread. stop() must be called before the last Ref is dropped.
  explicit Core(Inner inner);
  void stop() noexcept;

  void stay_if_leaving() const noexcept { at_exit_.stay_if_leaving(); }

  tcp::Group& all() const noexcept { return *inner_.all; }
  // The group of all ranks. Throws the first cause, unless that group itself is broken: then it
  // refuses the call, and quotes it.
  tcp::Group& pass_on();
  // Allocates memory that this node's ranks share. No operation may be under way.
  Ref<SymmetricMemory> allocate_on_node(std::size_t bytes);
  // The first cause; also checks the inner groups.
  std::exception_ptr error() noexcept;
  void throw_if_broken();
  void submit(const Ref<Operation>& operation);
  // Drives, or waits while another thread drives, until the operation is over; throws its error.
  void wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit);
  // True if the operation needs no more driving and all earlier ones are over. A caller that only
  // polls relies on the progress thread.
  bool may_be_over(const Operation& operation) noexcept;
  std::exception_ptr error_of(const Operation& operation) noexcept;
  // Breaks the group on every rank; the first cause counts.
  //   timeout          of the operation, for kTimeout; zero: of the first under way
  //   completes_until  see ProcessGroup::fail
  void fail(Cause cause, std::chrono::nanoseconds timeout = {},
            std::optional<std::uint64_t> completes_until = {}) noexcept;
  // The operations that are not over. A later operation waits for them, so that it is not over
  // first.
  std::vector<Ref<Work>> under_way();

 private:
  ~Core() override;
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  void run();
  // Takes one step; unlocks the mutex meanwhile.
  void drive() DL_REQUIRES(mutex_);
  // For the driving thread, without the lock: starts what can be started, then waits for what the
  // first operation needs next.
  void step(const std::vector<Ref<Operation>>& operations) noexcept;
  void wait_for(const Operation& op, const Ref<Work>& work);
  void wait_for_works(const Operation& op, std::optional<std::chrono::nanoseconds> limit,
                      Deadline until);
  void leave_at_exit();
  void release_finished();

  // Breaks the group with an error that an inner group reported for an operation.
  void fail_in(const Operation& op, const std::exception_ptr& error) noexcept;
  void complete_only(std::optional<std::uint64_t> until) noexcept;
  void tell_inner_groups() noexcept;
  Inner inner() noexcept;
  // The last operation that is over together with all earlier ones.
  std::uint64_t completed() const noexcept DL_REQUIRES(mutex_);
  void end_later() noexcept DL_REQUIRES(mutex_);

  const ForkMark fork_mark_{};
  // Only stop() changes it, under mutex_. Others use a copy, because a Work may outlive the group.
  Inner inner_;
  Mutex submit_mutex_;  // keeps the order of operations the same in all lanes

  Mutex mutex_;
  std::condition_variable changed_;
  Operations operations_ DL_GUARDED_BY(mutex_);
  Ref<Work> waited_for_ DL_GUARDED_BY(mutex_);  // by the driving thread
  // When all ranks were last probed.
  std::optional<Deadline::Clock::time_point> asked_at_ DL_GUARDED_BY(mutex_);
  bool is_driven_ DL_GUARDED_BY(mutex_) = false;
  // A caller wants the progress thread to take over now.
  bool is_urgent_ DL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ DL_GUARDED_BY(mutex_) = false;
  bool has_left_ DL_GUARDED_BY(mutex_) = false;  // at exit: refuses further calls
  int calling_ DL_GUARDED_BY(mutex_) = 0;        // threads between their agreement and the queue
  int waiters_ DL_GUARDED_BY(mutex_) = 0;
  std::uint64_t steps_ DL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

}  // namespace dl::collectives::hybrid
