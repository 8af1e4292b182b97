// Core: what the calls of an NcclGroup and its watcher share: the communicator, the operations
// under way, and the first error.
//
// A caller launches under launch_mutex_; the watcher, a thread of the core's, finds out what is
// over, what is late and what is broken. A launch of a graph that holds operations is one more
// operation, between two events of the launching stream: those within the graph nobody may query.
// An Operation keeps the Core; close() ends the watcher and the communicator. Thread-safety: any
// thread, but for what is said to be the watcher's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/descriptor.h"
#include "collectives/group_error.h"
#include "collectives/identity.h"
#include "collectives/nccl/nccl_group.h"
#include "collectives/record/recorder.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/first_error.h"
#include "core/base/fork.h"

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
  std::uint64_t in_graph_ = 0;  // a graph's launch: so many operations are in it
  Ref<RefCounted> owner_;
  record::Slot* slot_ = nullptr;
  // Of its stream: the GPU has come to the operation, and is through with it.
  void* begin_ = nullptr;
  void* end_ = nullptr;
  std::atomic<bool> done_{false};
  std::atomic<bool> awaited_{false};  // by a stream

  // Core::mutex_
  bool launched_ = false;  // both events stand in the stream
  bool started_ = false;
  bool warned_ = false;
  Clock::time_point clock_{};  // from which the deadline counts
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

  // Connects, and starts the watcher. Throws as make_nccl_group().
  void connect(const UniqueId& id, Deadline deadline);
  // Ends operations under way, the watcher and the communicator; at most some seconds.
  void close() noexcept;

  // Runs `enqueue(stream)` between NCCL's group calls, on the core's stream, after the caller's.
  using Enqueue = std::function<void(void* stream)>;
  Ref<Work> launch(Descriptor what, const CallOptions& call, const Enqueue& enqueue);
  // Around the launch of a graph. The first throws the group's error.
  Ref<Operation> begin_graph(const CapturedCalls& calls, const Stream& stream);
  void end_graph(const Ref<Operation>& launched, const Stream& stream,
                 const std::exception_ptr& failed) noexcept;
  // Throws kConnection, and breaks the group, where a call of NCCL has failed.
  void check(int code, std::string_view call);

  void abort(std::string_view reason) noexcept;
  void fail(const std::exception_ptr& cause) noexcept;
  std::exception_ptr error() const noexcept {
    return is_in_child() ? error_in_child() : error_->get();
  }
  // This process is a forked child of the rank: it has no part in the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  const Ref<FirstError>& first_error() const noexcept { return error_; }

 private:
  friend class Operation;
  using Clock = Deadline::Clock;

  // The first error counts; the watcher then ends everything. `tells`: the others do not know yet.
  void poison(ErrorKind kind, const std::string& text, bool tells) noexcept;
  void poison(std::exception_ptr cause, const std::string& text, bool tells) noexcept;
  void poison(const Cause& cause) noexcept;  // tells
  // The host group's failure is this one's.
  void hear_host() noexcept;
  void throw_if_broken();
  std::exception_ptr error_in_child() const noexcept;
  // Polls until NCCL is through with a call, or the group is broken; throws as check(). A passed
  // deadline breaks it.
  void settle(Deadline deadline, const Descriptor& what);

  void* take_event();
  void give_event(void* event) noexcept;

  // The watcher's.
  using Queue = std::deque<Ref<Operation>>;
  void watch() noexcept;
  void look() noexcept;
  std::chrono::nanoseconds advance() noexcept;  // returns how long it may sleep
  bool advance(Queue& queue);                   // whether something in it is not over
  void look_at_clock(const Ref<Operation>& front);
  void look_at_gone(const Operation& front);
  void end_everything() noexcept;
  // Whether `end` is, in a thread that is left behind where it takes longer.
  bool is_through(std::function<void()> end, std::chrono::nanoseconds time);
  // The same for as long as an abort may take: then the process ends.
  void call_or_die(std::function<void()> end, const std::string& why) noexcept;
  void die(const std::string& why) noexcept;
  bool leave() noexcept;             // false where the communicator must be aborted
  bool wait_for_streams() noexcept;  // false where the group broke meanwhile
  struct Missing {
    std::string text;
    Blame blame = Blame::kNone;
    int rank = -1;  // the first one to blame, in the job
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
  // Set under mutex_, and before NCCL is told to abort. Not only where an operation is under way: a
  // rank that aborts may feed the others' operations with anything, and they end well.
  const Ref<FirstError> error_ = make_ref<FirstError>();

  std::mutex launch_mutex_;
  std::uint64_t next_collective_ = 1;
  std::uint64_t next_message_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Queue pending_;   // on the core's stream
  Queue launches_;  // of graphs, on streams of others
  std::vector<void*> events_;
  Notices::Place place_;  // the last collective that was called
  std::string error_text_;
  bool tells_ = false;
  bool stops_ = false;
  std::thread watcher_;

  // The watcher's.
  Clock::time_point next_answer_{};
  std::int64_t asked_ = 0;
  Clock::time_point last_change_{};
  Clock::time_point gone_since_{};  // of the first rank that the host group knows to have ended
  bool is_over_ = false;            // end_everything() was here
};

}  // namespace dl::collectives::nccl
