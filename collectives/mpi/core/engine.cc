#include "collectives/mpi/core/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "collectives/mpi/core/core.h"
#include "collectives/mpi/module/library.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/thread.h"

namespace dl::collectives::mpi {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

constexpr std::chrono::nanoseconds kIdleNap = 20ms;
constexpr std::chrono::nanoseconds kLastNap = 1ms;  // while the process waits for its end
constexpr std::chrono::nanoseconds kShortestNap = 20us;
constexpr std::chrono::nanoseconds kLongestNap = 500us;
// At the end of the process: time for messages that are not received yet, and for MPI_Finalize,
// which waits for the other ranks.
constexpr auto kWarnAfter = 5s;
constexpr auto kEndTime = 600s;

Mutex engine_mutex;  // constant-initialised
Engine* the_engine DL_GUARDED_BY(engine_mutex) = nullptr;

void check_world(const Started& world, const Starter& starter, std::string_view library) {
  DL_CHECK(world.is_multiple, kInvalidArgument,
           "backend mpi: {} gives this process less than MPI_THREAD_MULTIPLE{}", library,
           world.was_started ? "; start MPI with MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...)"
                             : ", which a group needs; it was built without");
  const auto told = [&](std::optional<std::int64_t> size, std::string_view by) {
    DL_CHECK(!size || *size == world.size, kInvalidArgument,
             "backend mpi: {} sees a world of {}, and {} tells of {} ranks; start them with the "
             "mpirun of that MPI (DLRUN_MPI=openmpi or mpich chooses another)",
             library, world.size, by, *size);
  };
  told(starter.size, starter.name);
  told(env::get_int(env::Var::kWorldSize), "WORLD_SIZE");
}

}  // namespace

Engine::Engine(const Module& mpi) : mpi_(mpi) {}

Engine& Engine::get(Deadline deadline) {
  const Lock lock(engine_mutex);
  const Starter starter = find_starter();
  if (the_engine == nullptr) {
    auto made = std::unique_ptr<Engine>(new Engine(open_module(starter)));
    make_thread("backend mpi", [engine = made.get()] { engine->run(); }).detach();
    the_engine = made.release();
    ::on_exit([](int status, void* engine) { static_cast<Engine*>(engine)->end(status); },
              the_engine);
  }
  Engine& engine = *the_engine;
  {
    Lock started(engine.mutex_);
    const bool in_time = engine.changed_.wait_until(
        started.native(), std::min(deadline.when(), Clock::now() + kEndTime),
        [&]() DL_REQUIRES(engine.mutex_) { return engine.is_started_; });
    DL_CHECK(in_time, kTimeout,
             "backend mpi: {} has not started; MPI_Init_thread waits for all ranks of the job",
             engine.mpi_.library);
  }
  check(engine.mpi_, engine.start_code_, "backend mpi: MPI_Init_thread");
  check_world(engine.started_, starter, engine.mpi_.library);
  return engine;
}

void Engine::call(std::string_view what, std::function<int(const Module& mpi)> blocking,
                  Deadline deadline) {
  struct Task {
    Mutex mutex;
    std::condition_variable changed;
    std::optional<int> code DL_GUARDED_BY(mutex);
  };
  // Shared: the caller, or a call that returns too late, drops the last reference.
  const auto task = std::make_shared<Task>();
  make_thread(what, [task, blocking = std::move(blocking), &mpi = mpi_] {
    const int code = blocking(mpi);
    const Lock lock(task->mutex);
    task->code = code;
    task->changed.notify_all();
  }).detach();
  Lock lock(task->mutex);
  const auto is_over = [&]() DL_REQUIRES(task->mutex) { return task->code.has_value(); };
  if (!wait_until(task->changed, lock.native(), deadline, is_over)) {
    hold(nullptr);
    throw_error(ErrorKind::kTimeout, "{}: not all ranks have come by the deadline", what);
  }
  check(mpi_, *task->code, what);
}

void Engine::add(Ref<Core> core) {
  const Lock lock(mutex_);
  cores_.push_back(std::move(core));
}

void Engine::wait_until_over(const Core& core, Deadline deadline) noexcept {
  Lock lock(mutex_);
  const auto is_over = [&]() DL_REQUIRES(mutex_) {
    return std::ranges::none_of(cores_, [&](const Ref<Core>& c) { return c.get() == &core; });
  };
  changed_.wait_until(lock.native(), std::min(deadline.when(), Clock::now() + kEndTime), is_over);
}

void Engine::wake() noexcept {
  const Lock lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

void Engine::hold(Ref<RefCounted> owner) noexcept {
  const Lock lock(mutex_);
  is_holding_ = true;
  if (owner) held_.push_back(std::move(owner));
}

bool Engine::is_holding() const noexcept {
  const Lock lock(mutex_);
  return is_holding_;
}

void Engine::run() noexcept {
  Started started{};
  const int code = mpi_.start(&started);
  Lock lock(mutex_);
  start_code_ = code;
  started_ = started;
  is_started_ = true;
  changed_.notify_all();
  std::chrono::nanoseconds nap = kIdleNap;
  while (!is_ending_ || !cores_.empty()) {
    changed_.wait_for(lock.native(), nap, [this]() DL_REQUIRES(mutex_) {
      return is_woken_ || (is_ending_ && cores_.empty());
    });
    is_woken_ = false;
    polled_ = cores_;
    lock.unlock();
    nap = poll_all();
    lock.lock();
    if (is_ending_) nap = std::min(nap, kLastNap);
  }
  if (code == 0 && !started.was_started && !is_holding_) {
    lock.unlock();
    mpi_.finish();
    lock.lock();
  }
  is_over_ = true;
  changed_.notify_all();
}

std::chrono::nanoseconds Engine::poll_all() {
  const Clock::time_point now = Clock::now();
  bool is_busy = false;
  bool has_moved = false;
  for (const Ref<Core>& core : polled_) {
    const Core::Polled polled = core->poll();
    is_busy |= polled != Core::Polled::kIdle;
    has_moved |= polled == Core::Polled::kMoved;
    if (polled == Core::Polled::kOver) {
      const Lock lock(mutex_);
      std::erase(cores_, core);
      changed_.notify_all();
    }
  }
  polled_.clear();
  if (!is_busy) return kIdleNap;
  if (has_moved) {
    last_move_ = now;
    return 0ns;
  }
  return std::clamp<std::chrono::nanoseconds>((now - last_move_) / 16, kShortestNap, kLongestNap);
}

void Engine::end(int status) noexcept {
  Lock lock(mutex_);
  if (!is_started_) ::_exit(status != 0 ? status : kHeldExit);  // still in MPI_Init_thread
  const std::vector<Ref<Core>> open = cores_;
  lock.unlock();
  for (const Ref<Core>& core : open) core->leave();
  lock.lock();
  is_ending_ = true;
  is_woken_ = true;
  changed_.notify_all();
  const auto is_over = [this]() DL_REQUIRES(mutex_) { return is_over_; };
  if (!changed_.wait_for(lock.native(), kWarnAfter, is_over)) {
    log::warning("waiting in MPI_Finalize for the other ranks of the job");
    if (!changed_.wait_for(lock.native(), kEndTime - kWarnAfter, is_over)) is_holding_ = true;
  }
  if (!is_holding_) return;
  std::fflush(nullptr);
  ::_exit(status != 0 ? status : kHeldExit);
}

}  // namespace dl::collectives::mpi
