#include "collectives/shm/core/core.h"

#include <sched.h>

#include <utility>

#include "collectives/call/recording.h"
#include "collectives/shm/peers/oversubscribed.h"
#include "collectives/waiting/still_running.h"

namespace dl::collectives::shm {
namespace {

using namespace std::chrono_literals;

// How long a caller sleeps while another thread drives.
constexpr auto kWatchTime = 1ms;
constexpr int kYieldsForRole = 64;
constexpr auto kExitNap = 1ms;

}  // namespace

Core::Core(Links links, const Options& options)
    : peers_(std::move(links), options.name),
      records_(options.recorder, {.name = options.name,
                                  .backend = "shm",
                                  .generation = options.generation,
                                  .rank = peers_.rank(),
                                  .size = peers_.size()}),
      failure_(peers_, records_.log(), options.reports_failures),
      queue_(peers_, failure_, records_, hash_of_group(options.name, options.generation)),
      role_(peers_, failure_, records_, queue_, callers_, wakeup_, options.policy),
      progress_(peers_, failure_, queue_, callers_, wakeup_, role_) {
  records_.set_status(failure_);
  for (const Peer& p : peers_) parent_only_.add(p.socket.get());
  parent_only_.add(wakeup_.event());
  parent_only_.add(wakeup_.timer());
  progress_.start();
}

Core::~Core() = default;

void Core::stop() noexcept {
  if (at_exit_.keeps({this}, is_in_child())) return;
  if (queue_.has_operations()) {
    const Role::Held driver = role_.take();
    while (driver && driver->step()) {
    }
  }
  if (queue_.has_operations() || (failure_.is_broken() && !failure_.is_closed())) {
    fail(cause_of_destruction(name(), peers_.self().text(), nullptr));
  } else {
    failure_.leave();
  }
  callers_.is_stopping.store(true);
  progress_.stop();
  {
    const Role::Held driver = role_.take_soon();
    parent_only_.clear();
    peers_.close();
  }
  release_finished();
}

std::exception_ptr Core::gone_rank() const {
  if (is_in_child()) return nullptr;
  const std::optional<Cause> cause = peers_.cause_of_gone();
  return cause ? std::make_exception_ptr(GroupError(*cause)) : nullptr;
}

void Core::fail(Cause cause, std::optional<std::uint64_t> completes_until) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  failure_.fail(std::move(cause), completes_until);
  role_.end_if_broken();
}

void Core::abort(std::string_view reason) noexcept {
  fail(cause_of_abort(name(), peers_.self().text(), reason));
}

void Core::submit(const Ref<Operation>& operation) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (is_in_child()) throw_if_broken();
  at_exit_.stay_if_leaving();
  Operation& op = *operation;
  const profiler::Span span = call_span(op.descriptor);
  const bool is_oversubscribed = peers_.is_oversubscribed();
  op.transfer.plan =
      make_plan(op.descriptor, op.transfer.gives.longest(), size(), is_oversubscribed);
  const bool is_inline = op.transfer.plan.path == Path::kInline;
  release_finished();
  queue_.check_is_open(op.descriptor);
  if (is_oversubscribed) note_cpu(peers_.own());
  claim(op);
  {
    const Role::Held driver = role_.take();
    if (queue_.add(operation, driver && driver->is_idle())) driver->begin(operation);
    if (driver) driver->step();
    // An inline payload is published now: only the caller still has to wait.
    if (is_inline && driver && queue_.has_one_collective()) return;
  }
  if (!op.is_over()) wakeup_.after_call();
}

void Core::submit(const Ref<Message>& message) {
  if (is_in_child()) throw_if_broken();
  at_exit_.stay_if_leaving();
  release_finished();
  throw_if_broken();
  const profiler::Span span = call_span(message->descriptor);
  {
    const Role::Held driver = role_.take();
    queue_.add(message);
    if (driver) {
      driver->step();
      // A rank that only sends may not come back, so wake with a full fence any peer that has
      // fallen asleep meanwhile.
      if (!queue_.has_operations()) driver->settle();
    } else {
      // The driver may sleep.
      ring(peers_.own().bell);
    }
  }
  // Never wake the thread at once: most callers come back to wait for the message, and the thread
  // would compete with them.
  if (!message->is_over()) wakeup_.soon();
}

void Core::claim(Operation& op) const {
  const std::span<const std::byte> reached = begin_claim(op.transfer, size());
  if (reached.empty()) return;
  Memories::Place place = memories_->find(reached.data(), reached.size());
  if (!place.memory) return;
  op.transfer.claim.memory = place.memory->number();
  op.transfer.claim.offset = place.offset;
  op.transfer.memory = place.memory->addresses();
  op.memory = std::move(place.memory);
}

void Core::wait(Pending& op, std::optional<std::chrono::nanoseconds> limit) {
  const profiler::Span span = wait_span();
  if (is_in_child()) throw_if_broken();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  bool is_helper = false;
  while (!op.is_over()) {
    if (const Role::Held driver = callers_.visitors.load() == 0 ? role_.take() : Role::Held()) {
      driver->drive(&op, until);
    } else {
      if (!std::exchange(is_helper, true)) callers_.helpers.fetch_add(1);
      if (progress_.drives()) {
        ring(peers_.own().bell);
        // The thread gives the role back after a chunk at most.
        for (int i = 0; i < kYieldsForRole && progress_.drives(); ++i) ::sched_yield();
        if (!progress_.drives()) continue;
      }
      op.sleep_until(Deadline::earlier(until, Deadline::after(kWatchTime)));
    }
    if (limit && until.has_passed()) break;
  }
  if (is_helper) callers_.helpers.fetch_sub(1);
  leave_rest_to_thread();
  release_finished();
  if (op.is_over()) return;
  std::string missing;
  callers_.visitors.fetch_add(1);
  {
    const Role::Held driver = role_.take_soon();
    if (!op.is_over()) missing = driver->missing(op).text;
    callers_.visitors.fetch_sub(1);
  }
  // The progress thread may have checked while the role was taken.
  wakeup_.now();
  if (op.is_over()) return;
  stay_if_exiting();
  throw StillRunning(text(op.descriptor), *limit, missing);
}

void Core::leave_rest_to_thread() noexcept {
  if (queue_.has_collectives()) {
    wakeup_.now();
  } else if (queue_.has_messages()) {
    wakeup_.soon();
  } else {
    wakeup_.note_waited();
  }
}

void Core::poll() noexcept {
  if (const Role::Held driver = role_.take()) {
    driver->step();
    driver->settle();
  }
  wakeup_.soon();
}

void Core::release_finished() {
  if (!is_in_child()) records_.release();
}

void Core::leave_at_exit() {
  using Clock = Deadline::Clock;
  const auto begin = Clock::now();
  auto last_move = begin;
  const auto has_work = [this] { return queue_.has_operations() && !failure_.is_closed(); };
  while (has_work() || !queue_.close_if_idle()) {
    const Role::Held driver = role_.take();
    if (!driver) {
      ::sched_yield();
    } else if (driver->step() || driver->sleep(kExitNap)) {
      last_move = Clock::now();
    }
    const auto now = Clock::now();
    if (now - last_move <= kExitQuiet && now - begin <= kExitTime) continue;
    if (driver && has_work()) driver->warn_of_unfinished();
    return;  // without a goodbye
  }
  failure_.leave();
}

void Core::pass_memory(std::uint32_t number, int fd) {
  throw_if_broken();
  peers_.pass_memory(number, fd);
}

}  // namespace dl::collectives::shm
