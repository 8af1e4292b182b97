// Communicator: one rank's NCCL communicator, and how it ends. If NCCL does not return from an
// abort in time, the process ends, because NCCL may write into GPU memory at any time.
//
// Belongs to the group. Thread-safety: connect() and leave() by one thread; error() by a thread
// that holds `starting`; the rest by any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "collectives/nccl/library/module.h"
#include "core/base/mutex.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::collectives::nccl {

class Communicator {
 public:
  struct Options {
    const Module& nccl;
    cuda::Runtime& cuda;
    int device = 0;
    std::string group{};
    std::chrono::nanoseconds abort_time{};
    // Ends the process with this text. Null: logs the text and exits with 1.
    std::function<void(const std::string& text)> end_process{};
  };
  explicit Communicator(Options options) : options_(std::move(options)) {}

  // Held while NCCL starts operations: NCCL allows one thread at a time.
  Mutex starting;

  Comm get() const noexcept { return comm_.load(std::memory_order_relaxed); }
  // Begins to connect. Returns kInProgress, or an error.
  int connect(int size, const UniqueId& id, int rank);
  // What NCCL found in the background: kSuccess, kInProgress or an error.
  int error() const noexcept;
  // "NCCL says: ...", with NCCL's text for `code`.
  std::string said(int code) const;

  // Aborts running operations, ends the communicator, and runs `beside` at the same time. If this
  // takes longer than abort_time, the process ends, with a text that begins with `why`.
  void abort(const std::string& why, std::function<void()> beside = {}) noexcept;
  // Ends the communicator after its last operation.
  void leave() noexcept;

 private:
  // Runs each of `ends` in a thread of its own. Returns true if all return in time; otherwise the
  // threads are left behind. Also false, after a warning, if the system gives no thread.
  bool are_through(std::vector<std::function<void()>> ends, std::chrono::nanoseconds time);
  void end_process(const std::string& why) noexcept;

  const Options options_;
  std::atomic<Comm> comm_{nullptr};
};

}  // namespace dl::collectives::nccl
