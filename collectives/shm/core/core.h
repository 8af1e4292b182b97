// Core: one shared-memory group, put together from its parts. Callers' threads call it.
//
// Each part knows only those before it:
//
//   Peers      the other ranks, their segments and sockets
//   Records    the begin and the end of operations
//   Failure    the first cause, which breaks the group
//   Queue      operations that callers have submitted
//   Role       the right to advance operations, and the Driver with its Protocol and Messages
//   Progress   the thread that takes the role if no caller does
//
// The Group and its operations share the Core. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/process/at_exit.h"
#include "collectives/shm/core/progress.h"
#include "collectives/shm/core/role.h"
#include "collectives/shm/segment/memories.h"

namespace dl::collectives::shm {

class Core final : public RefCounted {
 public:
  struct Options {
    std::string name = "world";
    std::uint64_t generation = 0;
    WaitPolicy policy{};
    bool reports_failures = true;                  // to the agent
    std::shared_ptr<record::Recorder> recorder{};  // null: nothing is recorded
  };
  // Starts the progress thread. stop() must be called before the last Ref is dropped.
  Core(Links links, const Options& options);
  void stop() noexcept;

  int rank() const noexcept { return peers_.rank(); }
  int size() const noexcept { return peers_.size(); }
  const std::string& name() const noexcept { return peers_.group(); }
  const Identity& identity(int rank) const noexcept { return peers_[rank].who; }
  const Ref<Memories>& memories() const noexcept { return memories_; }

  // The first cause.
  std::exception_ptr error() const noexcept { return failure_.error(); }
  bool is_in_child() const noexcept { return failure_.is_in_child(); }
  std::exception_ptr gone_rank() const;
  void throw_if_broken() const { failure_.throw_if_broken(); }
  // Numbers the operation and starts it.
  void submit(const Ref<Operation>& operation);
  void submit(const Ref<Message>& message);
  // Drives, or sleeps while another thread drives, until the operation is over. Throws StillRunning
  // at the limit.
  void wait(Pending& operation, std::optional<std::chrono::nanoseconds> limit);
  void abort(std::string_view reason) noexcept;
  // Breaks the group; the first cause counts. `completes_until`: see ProcessGroup::fail.
  void fail(Cause cause, std::optional<std::uint64_t> completes_until = {}) noexcept;
  // How many collectives this rank has called.
  std::uint64_t calls() const noexcept { return peers_.own().called.load(); }
  // Advances operations without waiting, and wakes the progress thread soon, so that they go on
  // even if no thread waits for them.
  void poll() noexcept;
  // Releases owners of operations that are over, on the caller's thread, because owners may run
  // users' code.
  void release_finished();

  // Sends this rank's part of a symmetric memory to all peers. Throws kConnection, or the first
  // cause if the group is broken.
  void pass_memory(std::uint32_t number, int fd);
  PassedMemories& passed_memories() noexcept { return peers_.passed_memories(); }

 private:
  ~Core() override;

  void claim(Operation& op) const;
  // After a wait: wakes the progress thread if operations are left to it.
  void leave_rest_to_thread() noexcept;
  // For a process that ends without stop(): lets operations under way finish as long as they make
  // progress, and says goodbye if none is left.
  void leave_at_exit();

  const Ref<Memories> memories_ = make_ref<Memories>();
  Peers peers_;
  Records records_;
  Failure failure_;
  Queue queue_;
  Callers callers_;
  Wakeup wakeup_;
  Role role_;
  Progress progress_;
  ParentOnlyFds parent_only_;
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

}  // namespace dl::collectives::shm
