// Core: what the calls of an NcclGroup and its watcher share: the communicator, the operations
// under way, and the first error.
//
// A caller launches under launch_mutex_; the watcher, a thread of the core's, finds out what is
// over, what is late and what is broken. An Operation keeps the Core; close() ends the watcher and
// the communicator. Thread-safety: any thread, but for what is said to be the watcher's.
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
#include "collectives/identity.h"
#include "collectives/nccl/nccl_group.h"
#include "collectives/record/recorder.h"
#include "core/base/deadline.h"
#include "core/base/error.h"

namespace dl::collectives::nccl {

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
  void end(std::exception_ptr failed) noexcept;

  const Ref<Core> core_;
  Descriptor descriptor_;
  const std::chrono::nanoseconds timeout_;
  const bool captured_;
  Ref<RefCounted> owner_;
  record::Slot* slot_ = nullptr;
  // Of the core's stream: the GPU has come to the operation, and is through with it.
  void* begin_ = nullptr;
  void* end_ = nullptr;
  std::atomic<bool> done_{false};

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
  // Throws kConnection, and breaks the group, where a call of NCCL has failed.
  void check(int code, std::string_view call);

  void abort(std::string_view reason) noexcept;
  std::exception_ptr error() const noexcept;

 private:
  friend class Operation;
  using Clock = Deadline::Clock;

  // The first error counts; the watcher then ends everything. `tells`: the others do not know yet.
  void poison(ErrorKind kind, const std::string& text, bool tells) noexcept;
  void poison(std::exception_ptr cause, const std::string& text, bool tells) noexcept;
  void throw_if_broken() const;
  // Polls until NCCL is through with a call, or the group is broken; throws as check().
  void settle();
  std::string nccl_text(int code) const;

  void* take_event();
  void give_event(void* event) noexcept;

  // The watcher's.
  void watch() noexcept;
  void look() noexcept;
  std::chrono::nanoseconds advance();  // returns how long it may sleep
  void look_at_clock(const Ref<Operation>& front);
  void end_everything() noexcept;
  // Calls `end` in a thread that is left behind where it hangs: then the process ends.
  void call_or_die(std::function<void()> end, const std::string& why) noexcept;
  void die(const std::string& why) noexcept;
  bool leave() noexcept;  // false where the communicator must be aborted
  struct Missing {
    std::string text;
    bool is_mismatch = false;
  };
  Missing who_is_missing(const Descriptor& what);

  const NcclGroupOptions options_;
  const Module& nccl_;
  cuda::Runtime& cuda_;
  const std::vector<Identity> ranks_;
  const std::string name_;
  record::GroupRecorder log_;
  void* stream_ = nullptr;
  std::atomic<Comm> comm_{nullptr};
  std::atomic<bool> poisoned_{false};

  std::mutex launch_mutex_;
  std::uint64_t next_collective_ = 1;
  std::uint64_t next_message_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  std::deque<Ref<Operation>> pending_;
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
  bool is_over_ = false;  // end_everything() was here
};

}  // namespace dl::collectives::nccl
