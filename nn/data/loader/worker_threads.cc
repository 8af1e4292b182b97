#include "nn/data/loader/worker_threads.h"

#include <pthread.h>

#include <condition_variable>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/system/machine/limits.h"

namespace dl::data {

struct WorkerThreads::State {
  Mutex mutex;
  std::condition_variable changed;  // a new round, or the end
  std::condition_variable idle;     // no thread works
  Work work DL_GUARDED_BY(mutex);
  std::uint64_t round DL_GUARDED_BY(mutex) = 0;
  int count DL_GUARDED_BY(mutex) = 0;    // threads of this round
  int running DL_GUARDED_BY(mutex) = 0;  // threads that have not ended their work
  bool ending DL_GUARDED_BY(mutex) = false;
};

// `round` is the last round before the thread started.
void WorkerThreads::run(State& state, int worker, std::uint64_t round) {
  bool is_new = true;
  Lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock.native(), [&]() DL_REQUIRES(state.mutex) {
      return state.ending || (state.round != round && worker < state.count);
    });
    if (state.round == round || worker >= state.count) return;
    round = state.round;
    Work work = state.work;
    lock.unlock();
    work(worker, is_new);
    work = nullptr;  // may own the epoch
    lock.lock();
    if (--state.running > 0) continue;
    state.work = nullptr;
    state.idle.notify_all();
  }
}

WorkerThreads::WorkerThreads() : state_(std::make_shared<State>()) {}

WorkerThreads::~WorkerThreads() {
  end();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerThreads::work(int count, Work work) {
  if (count == 0) return;
  Lock lock(state_->mutex);
  const std::uint64_t round = state_->round;
  lock.unlock();
  try {
    while (static_cast<int>(threads_.size()) < count) {
      const auto worker = static_cast<int>(threads_.size());
      threads_.emplace_back(
          [state = state_, worker, round, name = "dl-loader-" + std::to_string(worker)] {
            ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
            use_all_bound_cpus();
            run(*state, worker, round);
          });
    }
  } catch (const std::system_error& error) {
    throw_error(ErrorKind::kIo,
                "data loader: {} workers were asked for, but thread {} did not start: {}", count,
                threads_.size(), spawn_error_text(error.code().value()));
  }
  lock.lock();
  state_->work = std::move(work);
  state_->count = state_->running = count;
  ++state_->round;
  working_ = true;
  state_->changed.notify_all();
}

void WorkerThreads::wait() noexcept {
  Lock lock(state_->mutex);
  state_->idle.wait(lock.native(),
                    [this]() DL_REQUIRES(state_->mutex) { return state_->running == 0; });
  working_ = false;
}

void WorkerThreads::abandon() noexcept {
  end();
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
  state_ = std::make_shared<State>();
  working_ = false;
}

void WorkerThreads::end() noexcept {
  const Lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

}  // namespace dl::data
