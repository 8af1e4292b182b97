// Engine: MPI in this process. It starts MPI with the first group, polls for all groups whatever
// nobody waits for, and ends MPI with the process.
//
// There is one, for ever: MPI can be started once. Its thread is the one that calls MPI_Init_thread
// and MPI_Finalize. MPI has no descriptor that a thread could sleep on, so that the thread naps:
// 20 microseconds to half a millisecond while operations are under way that nobody waits for, 20 ms
// otherwise.
//
// MPI cannot be made to give back the buffers of an operation that failed. They are its own from
// then on (hold()), and the process ends without MPI_Finalize, which would wait for them: by
// _exit() with its own code, or with kHeldExit where that would be 0.
//
// Thread-safety: any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "collectives/mpi/module.h"
#include "core/base/deadline.h"
#include "core/base/ref.h"

namespace dl::collectives::mpi {

class Core;

// As of every timeout of dlrun (docs/reference/dlrun.md).
inline constexpr int kHeldExit = 124;

class Engine {
 public:
  // Throws what find_starter() and open_module() throw; kTimeout where MPI does not start;
  // kInvalidArgument where it gives no MPI_THREAD_MULTIPLE, or sees another world than its starter.
  static Engine& get(Deadline deadline);

  const Module& mpi() const noexcept { return mpi_; }
  const Started& world() const noexcept { return started_; }

  // Throws kConnection with MPI's text for any other code than 0. `what` begins the text.
  void check(int code, std::string_view what) const;
  // Runs calls that block, in a thread of their own; `blocking` must own all that it uses. Throws
  // kTimeout where it is not over by the deadline, and what check() throws.
  void call(std::string_view what, std::function<int(const Module& mpi)> blocking,
            Deadline deadline);

  // Polled until it says that it is over.
  void add(Ref<Core> core);
  // Until it is not polled any more, or the deadline has passed.
  void wait_until_over(const Core& core, Deadline deadline) noexcept;
  void wake() noexcept;
  // MPI keeps what this stands for.
  void hold(Ref<RefCounted> owner) noexcept;
  bool is_holding() const noexcept;

 private:
  explicit Engine(const Module& mpi) : mpi_(mpi) {}
  void run() noexcept;
  // Polls all; how long to nap.
  std::chrono::nanoseconds poll_all();
  void end(int status) noexcept;

  const Module& mpi_;
  Started started_{};
  int start_code_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_started_ = false;
  bool is_woken_ = false;
  bool is_ending_ = false;
  bool is_over_ = false;
  bool is_holding_ = false;
  std::vector<Ref<Core>> cores_;
  std::vector<Ref<RefCounted>> held_;

  std::vector<Ref<Core>> polled_;  // the thread's
  Deadline::Clock::time_point last_move_{};
};

}  // namespace dl::collectives::mpi
