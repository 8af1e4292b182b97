// WorkerThreads: the threads of a DataLoader's workers. They run one epoch's work after another and
// wait in between.
//
// Thread-safety: one thread at a time uses an object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace dl::data {

class WorkerThreads {
 public:
  // The work of worker number `worker`, which throws nothing. `is_new` is true until a work sets it
  // to false: each thread has one.
  using Work = std::function<void(int worker, bool& is_new)>;

  WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;
  // Waits for the work.
  ~WorkerThreads();

  // True if work() has been called, but not wait() or abandon() after it.
  bool is_working() const noexcept { return working_; }
  // Runs the work on `count` threads, and starts more threads if there are fewer. Throws kIo if a
  // thread does not start; then nothing runs.
  void work(int count, Work work);
  // Waits until all threads have ended their work.
  void wait() noexcept;
  // Leaves the threads behind: they end after their work. The next work() starts new ones.
  void abandon() noexcept;

 private:
  struct State;  // shared with the threads, which may be left behind
  static void run(State& state, int worker, std::uint64_t round);
  void end() noexcept;

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
  bool working_ = false;
};

}  // namespace dl::data
