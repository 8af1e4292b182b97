// Core: the state of one hybrid group: its inner groups, what is under way, and why it is broken.
//
// Who conducts, that is takes slices from one lane to the next: whoever waits for an operation,
// else the group's progress thread, which takes over after a millisecond. One at a time does; it
// waits in the inner groups, and so works there (shm_group.h, tcp_group.h). Operations are
// conducted in their order, the later ones as far as that needs no waiting, so that an operation
// never waits for one that another rank has not called yet.
//
// Every operation is first agreed on by the group of all ranks, which carries its descriptor and
// numbers it: differing calls are found there, whichever way they would go, before any byte moves.
//
// An error of an inner group breaks them all, with its text in that of the operation: whoever is
// stuck in another one hears of it there. Deadlines are staggered by some milliseconds, from the
// agreement over the lanes (Stagger), as a rank that waits in a later one may wait for a rank that
// waits in an earlier one for the culprit. And all ranks are asked for a sign of life shortly
// before: one that gives none is named rather than one that has not called.
//
// A failure spares operations, as ProcessGroup::fail has it. The rank that fails tells the group of
// all ranks the number of the last one, and each lane how many of its collectives belong to them. A
// rank that hears of the failure in a lane first does not know the number yet: the operation that
// failed there is not spared, and those before it go on until the number comes, or until they fail,
// too. What the group of all ranks finds by itself spares all that were agreed on: a rank that
// waits in a lane for a peer that is gone notices that there.
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

#include "collectives/at_exit.h"
#include "collectives/group_error.h"
#include "collectives/hybrid/operation.h"
#include "collectives/process_group.h"
#include "collectives/tcp/group.h"
#include "core/base/error.h"
#include "core/base/fork.h"

namespace dl::collectives::hybrid {

struct Inner {
  Ref<tcp::Group> all;  // every rank
  std::array<Ref<ProcessGroup>, kLanes> lanes;
};

// When what belongs to an operation times out: the agreement at its deadline, each lane a `step`
// later. Who is silent is asked `answer` before the deadline.
struct Stagger {
  explicit Stagger(std::chrono::nanoseconds timeout) noexcept;

  // The timeout of a lane when `left` of the operation's own time is left.
  std::chrono::nanoseconds of(Lane lane, std::chrono::nanoseconds left) const noexcept;

  std::chrono::nanoseconds step, answer;
};

class Core final : public RefCounted {
 public:
  // Starts the progress thread; stop() must be called before the last Ref goes.
  explicit Core(Inner inner);
  void stop() noexcept;

  tcp::Group& all() noexcept { return *inner_.all; }
  ProcessGroup& lane(Lane lane) noexcept { return *inner_.lanes[static_cast<std::size_t>(lane)]; }
  // The same, for an operation that takes no route: throws where the group is broken.
  tcp::Group& pass_on();
  // This process is a forked child of the rank: it has no part in the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  // The first cause; looks at the inner groups, too.
  std::exception_ptr error() noexcept;
  void throw_if_broken();
  void submit(const Ref<Operation>& operation);
  // Conducts, or watches others conduct, until the operation is over, and throws its error.
  void wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit);
  // Whether nobody need conduct it any more, and all before it are over. Whoever only asks counts
  // on the thread.
  bool may_be_over(const Operation& operation) noexcept;
  std::exception_ptr error_of(const Operation& operation) noexcept;
  // Breaks the group on every rank; the first cause counts.
  // `timeout`: of the operation, for an error of kind kTimeout; zero: of the first under way.
  // `spared`: as ProcessGroup::fail has it.
  void fail(Cause cause, std::chrono::nanoseconds timeout = {},
            std::optional<std::uint64_t> spared = {}) noexcept;
  // So many collectives have been called in the lane, while no operation is under way.
  void count_calls(Lane lane, std::uint64_t calls) noexcept;
  // What was called before and is not over, so that a later operation does not seem to be over
  // first.
  std::vector<Ref<Work>> under_way();

 private:
  using Lock = std::unique_lock<std::mutex>;

  ~Core() override;
  void run();
  void conduct(Lock& lock);
  // Whoever conducts, without the lock: starts what can be started, then waits for what the first
  // operation needs next.
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
  // Breaks the group with an inner group's error in an operation.
  void fail_in(const Operation& op, const std::exception_ptr& error) noexcept;
  [[noreturn]] static void throw_not_over(const Operation& op, std::chrono::nanoseconds limit,
                                          const Ref<Work>& work);
  Inner inner() noexcept;
  void spare_only(std::optional<std::uint64_t> until) noexcept;
  void tell_inner_groups() noexcept;
  // Under the lock.
  bool is_spared(const Operation& op) const noexcept { return op.sequence() <= spared_until_; }
  std::uint64_t completed() const noexcept;  // the last operation, with all before it
  LaneCalls calls_until(std::uint64_t sequence) const noexcept;
  void end_all();  // ends every operation that is not spared; no thread may conduct

  const ForkMark fork_mark_{};
  Inner inner_;
  std::mutex submit_mutex_;  // the order of operations in all lanes

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ref<Operation>> queue_;      // not settled
  std::vector<Ref<Operation>> finished_;  // whose owners are let go on a caller's thread
  Ref<Work> waited_for_;                  // by whoever conducts
  std::optional<Deadline::Clock::time_point> asked_at_;  // all ranks, for a sign of life, at last
  std::exception_ptr error_;
  std::uint64_t spared_until_ = 0;  // of a broken group
  LaneCalls calls_{};               // in each lane, of all operations that have been called
  bool is_conducted_ = false;
  bool is_urgent_ = false;  // somebody wants the thread to take over now
  bool is_stopping_ = false;
  int waiters_ = 0;
  std::uint64_t steps_ = 0;  // that conducting threads have taken
  std::thread thread_;
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

}  // namespace dl::collectives::hybrid
