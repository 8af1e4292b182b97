// Driver: advances the operations of a group, in steps that do not block. The Protocol moves the
// front collective; Messages moves the messages. A caller that times out leaves them to another
// thread.
//
// Owned by the Role. Only the thread that holds the role may touch it.
#pragma once

#include <atomic>
#include <chrono>

#include "collectives/shm/driver/messages.h"
#include "collectives/shm/driver/queue.h"
#include "collectives/shm/driver/wakeup.h"
#include "collectives/shm/protocol/protocol.h"
#include "collectives/waiting/wait_policy.h"

namespace dl::collectives::shm {

// Threads that the driver makes way for. Any thread.
struct Callers {
  std::atomic<int> helpers{0};   // waiting callers that have found the role taken
  std::atomic<int> visitors{0};  // callers that want to read the driver's fields
  std::atomic<bool> is_stopping{false};
};

class Driver {
 public:
  using Clock = Deadline::Clock;

  Driver(Peers& peers, Failure& failure, Records& records, Queue& queue, const Callers& callers,
         Wakeup& wakeup, const WaitPolicy& policy);

  // Drives until `wanted` is over, or until the deadline; returns true if it is over. Null
  // `wanted`: drives until nothing is left or a caller wants the role.
  bool drive(const Pending* wanted, Deadline until);
  // Advances what can be advanced now; true if something moved.
  bool step();
  // Wakes the peers that a step may have missed.
  void settle() noexcept { protocol_.bells().settle(); }
  // Sleeps until a peer rings; true if there was something to do instead.
  bool sleep(std::chrono::nanoseconds most);

  // True if there is no front operation. begin() sets one, which Queue::add() has numbered.
  bool is_idle() const noexcept { return !front_; }
  void begin(Ref<Operation> op) noexcept;
  // In a broken group: ends the operations that do not complete any more.
  void end_all() noexcept;

  Missing missing(const Pending& pending) const;
  // Logs an operation that is left when the process exits.
  void warn_of_unfinished() const;

 private:
  bool has_front();  // makes the next operation the front one if there is none
  bool advance_front();
  void finish_front();
  void end(Ref<Operation> op, const std::exception_ptr& error) noexcept;
  Cause cause_of_mismatch(const Operation& op) const;
  // True if the front operation waits for a rank that cannot run before this one yields the core.
  // True also without a front operation: it is unknown on which CPU the peer of a message runs.
  bool waits_for_own_cpu() const noexcept;

  // look.cc: the checks of a wait that gets long.
  void look(Clock::time_point now);
  void look_at_peers(const Operation& front);
  void look_at_clock(Pending& op, Clock::time_point now);

  Peers& peers_;
  Failure& failure_;
  Records& records_;
  Queue& queue_;
  const Callers& callers_;
  Wakeup& wakeup_;
  const WaitPolicy policy_;

  Protocol protocol_;
  Messages messages_;
  Ref<Operation> front_;
  Clock::time_point next_look_{};
};

}  // namespace dl::collectives::shm
