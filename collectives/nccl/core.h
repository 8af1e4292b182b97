// Core: an NcclGroup without the checks of its calls. It connects, starts operations on a stream of
// its own, and hands them to its watcher (watcher.h). Its parts, each of which knows only those
// before it:
//
//   Shared        the stream, its events, and the first cause of a failure; Works keep it alive
//   Calls         hands the callers' operations to the watcher
//   Communicator  NCCL's communicator
//   Watcher       finds operations that are over or late, and failures; belongs to its thread
//
// Callers start operations while they hold Communicator::starting. close() ends watcher and
// communicator. Thread-safety: any thread.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl/watcher.h"

namespace dl::collectives::nccl {

class CapturedCalls;

class Core final : public RefCounted {
 public:
  Core(NcclGroupOptions options, std::vector<Identity> ranks, std::string name);
  ~Core() override;

  int rank() const noexcept { return options_.host->rank(); }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  const NcclGroupOptions& options() const noexcept { return options_; }
  const std::string& name() const noexcept { return name_; }
  Comm comm() const noexcept { return comm_.get(); }
  void* stream() const noexcept { return shared_->stream; }
  const Failure& failure() const noexcept { return shared_->failure; }

  // Connects the ranks and starts the watcher. Throws as make_nccl_group().
  void connect(const UniqueId& id, Deadline deadline);
  // Ends operations under way, the watcher and the communicator; takes some seconds at most.
  void close() noexcept;

  // Runs `enqueue(stream)` between NCCL's group calls, on the core's stream, after the work in the
  // caller's stream. `peer`: of a message; -1: it is no message, or several.
  using Enqueue = std::function<void(void* stream)>;
  Ref<Work> launch(Descriptor what, int peer, const CallOptions& call, const Enqueue& enqueue);
  // To be called around the launch of a graph. begin_graph() throws the group's error.
  Ref<Operation> begin_graph(const CapturedCalls& calls, const Stream& stream);
  void end_graph(const Ref<Operation>& launched, const Stream& stream,
                 const std::exception_ptr& failed) noexcept;
  // If a call of NCCL has failed: breaks the group and throws kConnection.
  void check(int code, std::string_view call);

  void abort(std::string_view reason) noexcept;
  void fail(const Cause& cause) noexcept;

 private:
  void throw_if_broken();
  // Polls until NCCL has finished starting `what`, or the group is broken; throws as check(). A
  // passed deadline breaks the group.
  void settle(Deadline deadline, const Descriptor& what);
  void start(const Ref<Operation>& operation, std::uint32_t hash,
             std::optional<Notices::Place> place);
  // Breaks the group with the exception that is being handled, which `operation` has caused.
  void fail_in(const Operation& operation) noexcept;

  const NcclGroupOptions options_;
  const Module& nccl_;
  const std::vector<Identity> ranks_;
  const std::string name_;
  record::GroupRecorder log_;
  const Ref<Shared> shared_;
  Calls calls_;
  Communicator comm_;
  std::uint64_t next_collective_ DL_GUARDED_BY(comm_.starting) = 1;
  std::uint64_t next_message_ DL_GUARDED_BY(comm_.starting) = 1;
  std::thread watcher_;
};

}  // namespace dl::collectives::nccl
