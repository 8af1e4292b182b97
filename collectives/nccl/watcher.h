// Watcher: the thread of an NcclGroup. It finds operations that are over or late, finds failures,
// and ends the group.
//
// The thread's function owns the Watcher: no other thread can name its fields. Calls hands it the
// operations that callers make. The launch of a graph that contains operations counts as one more
// operation, between two events of the launching stream, because events inside a graph cannot be
// queried.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "collectives/nccl/library/communicator.h"
#include "collectives/nccl/nccl_group.h"
#include "collectives/nccl/operation.h"
#include "collectives/waiting/judge/judge.h"
#include "core/base/deadline.h"

namespace dl::collectives::nccl {

// The operations that callers have started and the watcher has not taken yet. Any thread.
class Calls {
 public:
  struct Call {
    Ref<Operation> operation;
    record::Slot* slot = nullptr;
    Waiting::Time since{};  // when it was called
  };

  void add(Call call, std::optional<Notices::Place> place);
  // The calls since the last take().
  std::vector<Call> take();
  bool is_empty() const;
  // The last collective that was called.
  Notices::Place place() const;

 private:
  mutable Mutex mutex_;
  std::vector<Call> new_ DL_GUARDED_BY(mutex_);
  Notices::Place place_ DL_GUARDED_BY(mutex_);
};

class Watcher {
 public:
  // Refers to its arguments.
  Watcher(const NcclGroupOptions& options, const std::string& name,
          const std::vector<Identity>& ranks, record::GroupRecorder& log, Shared& shared,
          Calls& calls, Communicator& comm);

  // Runs until Bell::stop(). Then it ends the operations and the communicator, which takes some
  // seconds at most.
  void run() noexcept;

 private:
  using Time = Waiting::Time;
  struct Running : Calls::Call {
    explicit Running(Call call) : Call(std::move(call)), waiting(operation->timeout()) {
      waiting.begin(since);
    }
    // Call it when the GPU has reached the operation: its time counts from now on.
    void start(Time now) {
      has_started = true;
      since = now;
      const bool has_warned = waiting.has_warned;
      waiting = Waiting(operation->timeout());
      waiting.has_warned = has_warned;
      waiting.begin(now);
    }
    Waiting waiting;
    bool has_started = false;
  };
  using Queue = std::deque<Running>;

  void take_calls();
  void look() noexcept;
  void answer();
  std::chrono::nanoseconds advance() noexcept;  // returns how long it may sleep
  bool advance(Queue& queue);                   // true if an operation in it is not over
  void look_at_gone(const Running& front);
  void look_at_clock(Running& front);
  Missing missing(const Operation& late, std::optional<Cause>& mismatch);
  const Operation* oldest() const noexcept;
  bool leave() noexcept;             // false if the communicator must be aborted
  bool wait_for_streams() noexcept;  // false if the group broke meanwhile
  void end_everything() noexcept;

  const NcclGroupOptions& options_;
  const std::string& name_;
  const std::vector<Identity>& ranks_;
  record::GroupRecorder& log_;
  Shared& shared_;
  Failure& failure_;
  Calls& calls_;
  Communicator& comm_;

  Queue pending_;   // on the group's stream
  Queue launches_;  // of graphs, on the callers' streams
  Time next_answer_{};
  std::int64_t asked_ = 0;
  Time last_change_{};
  Time gone_since_{};  // when the host group first said that a rank had ended
  bool is_over_ = false;
};

}  // namespace dl::collectives::nccl
