// Core: the state of one hybrid group: its inner groups, the operations under way, and the error
// that broke it.
//
// A thread drives an operation by taking its slices from one lane to the next. A thread that waits
// for an operation drives it; otherwise the group's progress thread takes over after a millisecond.
// One thread drives at a time, and its waits in the inner groups make these progress (shm_group.h,
// tcp_group.h). It drives operations in order, and later ones only as far as this needs no waiting:
// so no operation waits for one that another rank has not called yet.
//
// First the group of all ranks agrees on every operation: it carries the descriptor and numbers the
// operation. So it finds differing calls before any data moves, whichever route they would take.
//
// An error of an inner group breaks them all, and the operation's error quotes its text. This also
// ends waits in the other inner groups. Deadlines are staggered by some milliseconds (Stagger),
// first the agreement's, then the lanes' in order: a rank that waits in a later lane may wait for
// one that itself waits for the failed rank in an earlier lane. Shortly before the deadline all
// ranks are probed: a rank that does not answer is blamed before one that has not called.
//
// A failure spares operations (ProcessGroup::fail). The rank that fails tells the group of all
// ranks the number of the last spared operation, and tells each lane how many of its collectives
// belong to spared ones. A rank that hears of the failure in a lane does not know the number yet:
// the operation that failed there is not spared, and earlier ones go on until the number arrives or
// they fail too. A failure that the group of all ranks finds itself spares all operations that were
// agreed on: a rank that waits in a lane for a dead peer notices it there.
//
// Thread-safety: any member from any thread.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/hybrid/operation.h"
#include "collectives/process/at_exit.h"
#include "collectives/tcp/group.h"
#include "collectives/waiting/group_error.h"
#include "core/base/error.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::hybrid {

struct Inner {
  Ref<tcp::Group> all;  // every rank
  std::array<Ref<ProcessGroup>, kLanes> lanes;
};

// Deadlines of an operation's parts: the agreement times out at the operation's deadline, each lane
// a `step` later. Ranks are probed `answer` before the deadline.
struct Stagger {
  explicit Stagger(std::chrono::nanoseconds timeout) noexcept;

  // The timeout of a lane if `left` of the operation's own time is left.
  std::chrono::nanoseconds of(Lane lane, std::chrono::nanoseconds left) const noexcept;

  std::chrono::nanoseconds step, answer;
};

class Core final : public RefCounted {
 public:
  // Starts the progress thread. stop() must be called before the last Ref is dropped.
  explicit Core(Inner inner);
  void stop() noexcept;

  void stay_if_leaving() const noexcept { at_exit_.stay_if_leaving(); }

  tcp::Group& all() noexcept { return *inner_.all; }
  ProcessGroup& lane(Lane lane) noexcept { return *inner_.lanes[static_cast<std::size_t>(lane)]; }
  // The group of all ranks, for an operation that takes no route; throws if the group is broken.
  tcp::Group& pass_on();
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
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
  //   timeout   of the operation, for an error of kind kTimeout; zero: of the first under way
  //   spared    see ProcessGroup::fail
  void fail(Cause cause, std::chrono::nanoseconds timeout = {},
            std::optional<std::uint64_t> spared = {}) noexcept;
  // Adds collectives that were called in the lane while no operation was under way.
  void count_calls(Lane lane, std::uint64_t calls) noexcept;
  // The operations that are not over. A later operation waits for them, so that it is not over
  // first.
  std::vector<Ref<Work>> under_way();

 private:
  using Lock = std::unique_lock<std::mutex>;

  ~Core() override;
  void run();
  void drive(Lock& lock);
  // For the driving thread, without the lock: starts what can be started, then waits for what the
  // first operation needs next.
  void step(const std::vector<Ref<Operation>>& operations) noexcept;
  void advance(Operation& op, bool& is_cross_open, bool& is_out_open);
  static const Ref<Work>& next_work(const Operation& op) noexcept;
  static bool is_over(const Ref<Work>& work);
  void wait_for(const Operation& op, const Ref<Work>& work);
  void begin(Operation& op, Lane lane);
  void wait_for_works(const Operation& op, std::optional<std::chrono::nanoseconds> limit,
                      Deadline until);
  bool are_earlier_over(const Operation& op) const noexcept;
  // Under the lock.
  void settle(Operation& op);
  void leave_at_exit();
  void release_finished();

  // failure.cc
  // Breaks the group with an error that an inner group reported for an operation.
  void fail_in(const Operation& op, const std::exception_ptr& error) noexcept;
  [[noreturn]] static void throw_not_over(const Operation& op, std::chrono::nanoseconds limit,
                                          const Ref<Work>& work);
  Inner inner() noexcept;
  void spare_only(std::optional<std::uint64_t> until) noexcept;
  void tell_inner_groups() noexcept;
  // Under the lock.
  bool is_spared(const Operation& op) const noexcept { return op.sequence() <= spared_until_; }
  // The last operation that is over together with all earlier ones.
  std::uint64_t completed() const noexcept;
  LaneCalls calls_until(std::uint64_t sequence) const noexcept;
  void end_all();  // ends every operation that is not spared; no thread may drive

  const ForkMark fork_mark_{};
  Inner inner_;
  std::mutex submit_mutex_;  // keeps the order of operations the same in all lanes

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ref<Operation>> queue_;      // not settled
  std::vector<Ref<Operation>> finished_;  // their owners are released on a caller's thread
  Ref<Work> waited_for_;                  // by the driving thread
  std::optional<Deadline::Clock::time_point> asked_at_;  // when all ranks were last probed
  std::exception_ptr error_;
  std::uint64_t spared_until_ = 0;  // if the group is broken
  LaneCalls calls_{};               // in each lane, by all operations that were called
  bool is_driven_ = false;
  bool is_urgent_ = false;  // a caller wants the progress thread to take over now
  bool is_stopping_ = false;
  bool has_left_ = false;  // at exit: refuses further calls
  int calling_ = 0;        // threads between their agreement and the queue
  int waiters_ = 0;
  std::uint64_t steps_ = 0;  // how many steps driving threads have taken
  std::thread thread_;
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

}  // namespace dl::collectives::hybrid
