// Core: the communicator, the operations under way and the first error of an NcclGroup, shared by
// its callers and its watcher.
//
// A caller launches under launch_mutex_. The watcher, a thread of the core, finds out which
// operations are over or late, and whether the group broke. The launch of a graph that contains
// operations counts as one more operation, between two events of the launching stream, because
// events inside a graph cannot be queried. An Operation keeps the Core alive; close() ends the
// watcher and the communicator. Thread-safety: any thread, except members marked as the watcher's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/call/identity.h"
#include "collectives/nccl/nccl_group.h"
#include "collectives/record/recorder.h"
#include "collectives/waiting/group_error.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/first_error.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::nccl {

class CapturedCalls;
class Core;

class Operation final : public Work {
 public:
  Operation(Ref<Core> core, const Descriptor& what, const CallOptions& call,
            std::chrono::nanoseconds time, bool captured);
  ~Operation() override;

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override { return done_.load(std::memory_order_acquire); }
  std::exception_ptr error() const noexcept override;
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override;
  std::string_view algorithm() const noexcept override { return "nccl"; }

 private:
  friend class Core;
  using Clock = Deadline::Clock;
  std::string what() const;
  void end(std::exception_ptr failed) noexcept;

  const Ref<Core> core_;
  Descriptor descriptor_;
  const std::chrono::nanoseconds timeout_;
  const bool captured_;
  std::uint64_t in_graph_ = 0;  // number of operations in a graph's launch
  Ref<RefCounted> owner_;
  record::Slot* slot_ = nullptr;
  // Events of its stream: the GPU has reached the operation, and has finished it.
  void* begin_ = nullptr;
  void* end_ = nullptr;
  std::atomic<bool> done_{false};
  std::atomic<bool> awaited_{false};  // by a stream

  // Core::mutex_
  bool launched_ = false;  // both events are recorded in the stream
  bool started_ = false;
  bool warned_ = false;
  Clock::time_point clock_{};  // the deadline counts from here
  std::exception_ptr error_;
  Clock::time_point completed_at_{};
  std::condition_variable over_;
};

class Core final : public RefCounted {
 public:
  Core(NcclGroupOptions options, std::vector<Identity> ranks, std::string name);
  ~Core() override;

  int rank() const noexcept { return options_.host->rank(); }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  const NcclGroupOptions& options() const noexcept { return options_; }
  const std::string& name() const noexcept { return name_; }
  Comm comm() const noexcept { return comm_; }
  void* stream() const noexcept { return stream_; }

  // Connects the ranks and starts the watcher. Throws as make_nccl_group().
  void connect(const UniqueId& id, Deadline deadline);
  // Ends operations under way, the watcher and the communicator; takes some seconds at most.
  void close() noexcept;

  // Runs `enqueue(stream)` between NCCL's group calls, on the core's stream, after the caller's.
  using Enqueue = std::function<void(void* stream)>;
  Ref<Work> launch(Descriptor what, const CallOptions& call, const Enqueue& enqueue);
  // To be called around the launch of a graph. begin_graph() throws the group's error.
  Ref<Operation> begin_graph(const CapturedCalls& calls, const Stream& stream);
  void end_graph(const Ref<Operation>& launched, const Stream& stream,
                 const std::exception_ptr& failed) noexcept;
  // If a call of NCCL has failed: breaks the group and throws kConnection.
  void check(int code, std::string_view call);

  void abort(std::string_view reason) noexcept;
  void fail(const std::exception_ptr& cause) noexcept;
  std::exception_ptr error() const noexcept {
    return is_in_child() ? error_in_child() : error_->get();
  }
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  const Ref<FirstError>& first_error() const noexcept { return error_; }

 private:
  friend class Operation;
  using Clock = Deadline::Clock;

  // The first error counts; the watcher then ends everything. `tells`: the other ranks do not know
  // yet.
  void poison(ErrorKind kind, const std::string& text, bool tells) noexcept;
  void poison(std::exception_ptr cause, const std::string& text, bool tells) noexcept;
  void poison(const Cause& cause) noexcept;  // tells
  // NCCL reports that another rank failed, but not which one. Waits for the host group to name it.
  void poison_remote(const std::string& during, int code) noexcept;
  // Adopts the host group's failure.
  void hear_host() noexcept;
  void throw_if_broken();
  std::exception_ptr error_in_child() const noexcept;
  // Polls until NCCL has finished a call, or the group is broken; throws as check(). A passed
  // deadline breaks the group.
  void settle(Deadline deadline, const Descriptor& what);

  void wake_if_idle() noexcept;
  void* take_event();
  void give_event(void* event) noexcept;

  // For the watcher.
  using Queue = std::deque<Ref<Operation>>;
  void watch() noexcept;
  void look() noexcept;
  std::chrono::nanoseconds advance() noexcept;  // returns how long it may sleep
  bool advance(Queue& queue);                   // true if an operation in it is not over
  void look_at_clock(const Ref<Operation>& front);
  void look_at_gone(const Operation& front);
  void end_everything() noexcept;
  // Runs each of `ends` in a thread; true if all return in time. If not, threads are left behind.
  // False also, after a warning, if the system gives no thread.
  bool are_through(std::vector<std::function<void()>> ends, std::chrono::nanoseconds time);
  // are_through() with the time that an abort may take: if it takes longer, the process ends.
  void call_or_die(std::vector<std::function<void()>> ends, const std::string& why) noexcept;
  void die(const std::string& why) noexcept;
  bool leave() noexcept;             // false if the communicator must be aborted
  bool wait_for_streams() noexcept;  // false if the group broke meanwhile
  struct Missing {
    std::string text;
    Blame blame = Blame::kNone;
    int rank = -1;  // the first rank to blame, in the job
  };
  Missing who_is_missing(const Operation& late);

  const ForkMark fork_mark_{};
  const NcclGroupOptions options_;
  const Module& nccl_;
  cuda::Runtime& cuda_;
  const std::vector<Identity> ranks_;
  const std::string name_;
  record::GroupRecorder log_;
  void* stream_ = nullptr;
  std::atomic<Comm> comm_{nullptr};
  // Set under mutex_ and before NCCL is told to abort, even if no operation is under way: an
  // aborting rank may feed wrong data into the others' operations, which then end without an error.
  const Ref<FirstError> error_ = make_ref<FirstError>();

  std::mutex launch_mutex_;
  std::uint64_t next_collective_ = 1;
  std::uint64_t next_message_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Queue pending_;   // on the core's stream
  Queue launches_;  // of graphs, on the callers' streams
  std::vector<void*> events_;
  Notices::Place place_;  // the last collective that was called
  std::string error_text_;
  bool tells_ = false;
  bool stops_ = false;
  bool is_idle_ = false;     // the watcher, which then sleeps until it is woken
  bool host_waits_ = false;  // in synchronize(), so the watcher looks at once
  std::thread watcher_;

  // For the watcher.
  Clock::time_point next_answer_{};
  std::int64_t asked_ = 0;
  Clock::time_point last_change_{};
  // When the first rank that the host group knows to have ended was noticed.
  Clock::time_point gone_since_{};
  bool is_over_ = false;  // end_everything() has run
};

}  // namespace dl::collectives::nccl
