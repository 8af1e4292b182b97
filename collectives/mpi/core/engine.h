// Engine: MPI in this process. It starts MPI with the first group, polls for all groups if no
// thread waits for their operations, and ends MPI with the process.
//
// There is one Engine and it is never destroyed, because MPI can be started only once. Its thread
// calls MPI_Init_thread and MPI_Finalize. MPI has no descriptor on which a thread could sleep, so
// the thread naps: 20 microseconds to half a millisecond while operations run for which no thread
// waits, 20 ms otherwise.
//
// MPI cannot return the buffers of a failed operation early. They belong to MPI from then on
// (hold()), and the process ends without MPI_Finalize, which would wait for them: it calls _exit()
// with its own exit code, or with kHeldExit if this would be 0.
//
// Thread-safety: any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <string_view>
#include <vector>

#include "collectives/mpi/module/module.h"
#include "core/base/deadline.h"
#include "core/base/lifetime/ref.h"
#include "core/base/mutex.h"

namespace dl::collectives::mpi {

class Core;

// The exit code of every timeout of dlrun (docs/reference/dlrun.md).
inline constexpr int kHeldExit = 124;

class Engine {
 public:
  // Throws what find_starter() and open_module() throw; kTimeout if MPI does not start;
  // kInvalidArgument if it provides no MPI_THREAD_MULTIPLE, or another world size than its starter.
  static Engine& get(Deadline deadline);

  const Module& mpi() const noexcept { return mpi_; }
  const Started& world() const noexcept { return started_; }

  // Runs blocking calls in a thread of their own; `blocking` must own all that it uses. Throws
  // kTimeout if it has not returned by the deadline, and what check() (library.h) throws.
  void call(std::string_view what, std::function<int(const Module& mpi)> blocking,
            Deadline deadline);

  // The engine polls the core until the core reports that it is over.
  void add(Ref<Core> core);
  // Waits until the engine no longer polls the core, or the deadline has passed.
  void wait_until_over(const Core& core, Deadline deadline) noexcept;
  void wake() noexcept;
  // Keeps `owner` for ever, because MPI may still use its buffers.
  void hold(Ref<RefCounted> owner) noexcept;
  bool is_holding() const noexcept;

 private:
  explicit Engine(const Module& mpi);
  void run() noexcept;
  // Polls all cores; returns how long to nap.
  std::chrono::nanoseconds poll_all();
  void end(int status) noexcept;

  const Module& mpi_;
  // Written before is_started_.
  Started started_{};
  int start_code_ = 0;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool is_started_ DL_GUARDED_BY(mutex_) = false;
  bool is_woken_ DL_GUARDED_BY(mutex_) = false;
  bool is_ending_ DL_GUARDED_BY(mutex_) = false;
  bool is_over_ DL_GUARDED_BY(mutex_) = false;
  bool is_holding_ DL_GUARDED_BY(mutex_) = false;
  std::vector<Ref<Core>> cores_ DL_GUARDED_BY(mutex_);
  std::vector<Ref<RefCounted>> held_ DL_GUARDED_BY(mutex_);

  std::vector<Ref<Core>> polled_;  // the thread's
  Deadline::Clock::time_point last_move_{};
};

}  // namespace dl::collectives::mpi
