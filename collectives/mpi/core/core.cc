#include "collectives/mpi/core/core.h"

#include <sched.h>

#include <algorithm>

#include "collectives/call/checks.h"
#include "collectives/call/recording.h"
#include "collectives/waiting/still_running.h"

namespace dl::collectives::mpi {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

// After a failure: time for telling the cause to the other ranks.
constexpr auto kLastWords = 50ms;

}  // namespace

Operation::Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
    : PendingWork("mpi", call, time), core_(std::move(core)) {
  waiting.begin(Clock::now());
}

Operation::~Operation() = default;

void Operation::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  if (!is_completed()) core_->wait(*this, limit);
  if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
}

Collective::Collective(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
    : Operation(std::move(core), call, time),
      input(static_cast<const std::byte*>(call.input)),
      output(static_cast<std::byte*>(call.output)) {}

void Collective::plan(const Call& call, const Choices& choices, int rank, int size,
                      const Requests& mpi) {
  if (is_inline(descriptor)) return;
  Call planned = call;
  Schedule schedule = choices.schedule(planned, rank, size);
  if (call.row().is_v_variant()) {
    told.resize(static_cast<std::size_t>(size));
    const std::size_t element = size_of(call.what.dtype);
    for (const Transfer& send : schedule.sends) {
      told[static_cast<std::size_t>(send.peer)].sends += send.bytes / element;
    }
    for (const Transfer& receive : schedule.receives) {
      told[static_cast<std::size_t>(receive.peer)].expects += receive.bytes / element;
    }
  }
  traffic.emplace(planned, std::move(schedule), rank, size, mpi);
}

Core::Core(Engine& engine, Handle comm, std::vector<Identity> ranks, int rank,
           const Options& options)
    : engine_(engine),
      comm_(comm),
      self_(ranks[static_cast<std::size_t>(rank)]),
      size_(static_cast<int>(ranks.size())),
      name_(options.name),
      policy_(options.policy),
      ledger_(options.recorder, {.name = name_, .backend = "mpi", .rank = rank, .size = size_}),
      status_(name_, self_, ledger_.log(), /*reports=*/false),
      driver_(engine, comm, std::move(ranks), rank, name_, policy_.warn_after, ledger_, status_) {}

void Core::submit(const Ref<Operation>& operation, const Call& call, const Choices& choices) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (status_.is_in_child()) throw_if_broken();
  const profiler::Span span = call_span(operation->descriptor);
  ledger_.release();
  const Lock lock(mutex_);
  throw_if_broken();
  driver_.submit(operation, call, choices);
  if (wakes_at_once_.load(std::memory_order_relaxed)) engine_.wake();
}

void Core::wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit) {
  const profiler::Span span = wait_span();
  if (status_.is_in_child()) throw_if_broken();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  waiters_.fetch_add(1);
  wakes_at_once_.store(false, std::memory_order_relaxed);
  Clock::time_point last_move = Clock::now();
  std::string missing;
  // Two readings of the clock take as long as a step that finds nothing.
  const int steps = policy_.yields ? 1 : 8;
  while (!operation.is_completed()) {
    bool moved = false;
    if (mutex_.try_lock()) {
      for (int i = 0; i < steps && !moved && !operation.is_completed(); ++i) moved = driver_.step();
      mutex_.unlock();
    }
    if (!operation.is_completed() && until.has_passed()) {
      const Lock lock(mutex_);
      if (!operation.is_completed()) missing = driver_.missing(operation).text;
      break;
    }
    const Clock::time_point now = Clock::now();
    if (moved) {
      last_move = now;
    } else if (now - last_move > policy_.spin) {
      // The longer the wait takes, the less a nap matters.
      operation.sleep_until(
          Deadline::at(now + std::clamp<Clock::duration>((now - last_move) / 16, 20us, 500us)));
    } else if (policy_.yields) {
      ::sched_yield();
    }
  }
  waiters_.fetch_sub(1);
  ledger_.release();
  if (!missing.empty()) throw StillRunning(text(operation.descriptor), *limit, missing);
  if (!status_.is_broken()) return;
  const Lock lock(mutex_);
  const Deadline last_words = Deadline::after(kLastWords);
  while (driver_.has_to_tell() && !last_words.has_passed()) driver_.tell_more();
}

Core::Polled Core::poll() noexcept {
  if (waiters_.load() > 0) return Polled::kIdle;
  if (!mutex_.try_lock()) return Polled::kBusy;
  const Polled polled = drive();
  mutex_.unlock();
  return polled;
}

Core::Polled Core::drive() noexcept {
  const bool was_busy = driver_.has_operations();
  const bool moved = driver_.step();
  if (was_busy && moved) wakes_at_once_.store(true, std::memory_order_relaxed);
  if (driver_.is_leaving() && driver_.close(Ref<RefCounted>(this))) return Polled::kOver;
  if (moved) return Polled::kMoved;
  return driver_.is_busy() ? Polled::kBusy : Polled::kIdle;
}

void Core::abort(std::string_view reason) noexcept {
  if (status_.is_in_child()) return;  // a forked child does not speak for the rank
  const Lock lock(mutex_);
  driver_.abort(reason);
}

void Core::leave() noexcept {
  if (status_.is_in_child()) {
    retain();  // leaves the parent's MPI state as it is
    return;
  }
  {
    const Lock lock(mutex_);
    if (driver_.leave()) engine_.wake();
  }
  ledger_.release();
}

}  // namespace dl::collectives::mpi
