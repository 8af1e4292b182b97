// Core: one MPI group, as its callers and the engine's thread see it. Its driver (driver.h) moves
// the operations: a thread that waits drives, otherwise the engine's thread does.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "collectives/mpi/core/driver.h"
#include "core/base/mutex.h"

namespace dl::collectives::mpi {

class Core final : public RefCounted {
 public:
  struct Options {
    std::string name = "world";
    WaitPolicy policy{};
    std::shared_ptr<record::Recorder> recorder{};  // null: nothing is recorded
  };
  Core(Engine& engine, Handle comm, std::vector<Identity> ranks, int rank, const Options& options);

  int rank() const noexcept { return self_.rank; }
  int size() const noexcept { return size_; }
  const std::string& name() const noexcept { return name_; }
  Engine& engine() noexcept { return engine_; }
  Handle comm() const noexcept { return comm_; }

  std::exception_ptr error() const noexcept { return status_.error(); }
  void throw_if_broken() const { status_.throw_if_broken(); }
  // Numbers the operation and starts it.
  void submit(const Ref<Operation>& operation, const Call& call, const Choices& choices);
  // Drives until the operation is over. Throws kTimeout at the limit.
  void wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit);
  void abort(std::string_view reason) noexcept;
  // Says goodbye; the engine drops the core later, when no message is under way.
  void leave() noexcept;

  // For the engine's thread.
  enum class Polled : std::uint8_t { kIdle, kBusy, kMoved, kOver };
  Polled poll() noexcept;

 private:
  Polled drive() noexcept DL_REQUIRES(mutex_);

  Engine& engine_;
  const Handle comm_;
  const Identity self_;
  const int size_;
  const std::string name_;
  const WaitPolicy policy_;

  std::atomic<int> waiters_{0};
  // True if the engine's thread is woken with each call: set once it had to take up an operation.
  std::atomic<bool> wakes_at_once_{false};
  Ledger ledger_;
  GroupStatus status_;

  Mutex mutex_;
  Driver driver_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::collectives::mpi
