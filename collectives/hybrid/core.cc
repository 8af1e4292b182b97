#include "collectives/hybrid/core.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <limits>

#include "collectives/call/recording.h"
#include "collectives/waiting/still_running.h"
#include "core/base/error.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/system/machine/thread.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::hybrid {
namespace {

using namespace std::chrono_literals;

// How late the thread takes up an operation for which no thread waits: most callers wait at once.
constexpr auto kTakeUpTime = 1ms;
// As completes_until: what the group of all ranks says.
constexpr std::uint64_t kAsHeard = std::numeric_limits<std::uint64_t>::max();

// Adds the called operation to a cause that names an inner operation only.
Cause in_operation(Cause cause, const Descriptor& what) {
  if (cause.is_whole || cause.operation.empty()) return cause;
  cause.text = fmt::format("{}, in its {}", text(what), cause.text);
  cause.operation = title(what);
  cause.sequence = what.sequence;
  cause.is_whole = true;
  return cause;
}

[[noreturn]] void throw_not_over(const Operation& op, std::chrono::nanoseconds limit,
                                 const Ref<Work>& work) {
  stay_if_exiting();
  std::string why = "waiting for its own part";
  try {
    if (work) work->synchronize(std::chrono::nanoseconds(0));
  } catch (const StillRunning& inner) {
    why = inner.operation() == text(op.descriptor())
              ? inner.missing()
              : fmt::format("in {}, {}", inner.operation(), inner.missing());
  } catch (const Error& error) {
    why = error.what();
  }
  throw StillRunning(text(op.descriptor()), limit, why);
}

}  // namespace

Core::Core(Inner inner)
    : inner_(std::move(inner)),
      thread_(make_thread(fmt::format("group '{}'", all().name()), [this] { run(); })) {}

Core::~Core() = default;

void Core::submit(const Ref<Operation>& operation) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (is_in_child()) throw_if_broken();
  at_exit_.stay_if_leaving();
  release_finished();
  const profiler::Span span = call_span(operation->descriptor());
  const Lock order(submit_mutex_);
  tcp::Group& group = pass_on();
  const LaneCalls calls = operation->progress().calls();
  {
    const Lock lock(mutex_);
    if (has_left_) {
      throw_error(ErrorKind::kAborted, "{}: this rank has left group '{}' by exit()",
                  text(operation->descriptor()), group.name());
    }
    ++calling_;
    operations_.count(calls);
  }
  std::exception_ptr refusal;
  try {
    operation->agree(group);
  } catch (...) {
    refusal = std::current_exception();
  }
  bool is_broken = false;
  {
    const Lock lock(mutex_);
    --calling_;
    changed_.notify_all();
    is_broken = operations_.error() != nullptr;
    if (!refusal && is_broken && !operations_.completes(*operation)) refusal = operations_.error();
    if (!refusal) {
      operations_.add(operation);
      return;
    }
    operations_.discount(calls);
  }
  // The lanes may have been told to complete its calls, which never come.
  if (is_broken) tell_inner_groups();
  std::rethrow_exception(refusal);
}

void Core::run() {
  ::pthread_setname_np(::pthread_self(), "dlrun-hybrid");
  use_all_bound_cpus();
  const auto may_drive = [this]() DL_REQUIRES(mutex_) {
    return !operations_.is_empty() && waiters_ == 0 && !is_driven_;
  };
  Lock lock(mutex_);
  bool is_warm = false;
  while (!is_stopping_) {
    if (!may_drive()) {
      is_warm = is_warm && !operations_.is_empty();
      detail::wait_for_change(changed_, lock.native());
    } else if (is_warm || is_urgent_) {
      drive();
    } else {
      is_warm = !changed_.wait_for(lock.native(), kTakeUpTime, [&]() DL_REQUIRES(mutex_) {
        return is_stopping_ || is_urgent_ || !may_drive();
      });
    }
  }
}

void Core::drive() {
  is_driven_ = true;
  std::vector<Ref<Operation>> operations = operations_.unsettled();
  mutex_.unlock();
  step(operations);
  // Drop these references now, so that a caller drops the last reference to an operation.
  operations.clear();
  mutex_.lock();
  waited_for_ = nullptr;
  is_driven_ = false;
  ++steps_;
  operations_.settle_begun();
  if (operations_.error()) operations_.end_all();
  if (operations_.is_empty()) is_urgent_ = false;
  changed_.notify_all();
}

void Core::step(const std::vector<Ref<Operation>>& operations) noexcept {
  const Operation& first = *operations.front();
  const Operation* current = &first;
  try {
    Progress::Open open;
    for (const Ref<Operation>& op : operations) {
      current = op.get();
      if (!op->advance(inner_.lanes, open)) break;
    }
    current = &first;
    if (first.is_agreed() && first.progress().has_begun()) return;
    const Ref<Work>& work = first.next_work();
    {
      const Lock lock(mutex_);
      if (operations_.error() && !operations_.completes(first)) return;
      waited_for_ = work;
    }
    wait_for(first, work);
  } catch (const std::exception&) {
    fail_in(*current, std::current_exception());
  }
}

// Probes all ranks so early that the answers have arrived by the deadline.
void Core::wait_for(const Operation& op, const Ref<Work>& work) {
  const auto [timeout, deadline] = op.limit();
  const std::chrono::nanoseconds before = deadline.left() - Stagger(timeout).answer;
  if (before > 0ns && timeout != std::chrono::nanoseconds::max()) {
    try {
      return work->synchronize(before);
    } catch (const StillRunning&) {
      if (work->is_completed()) return work->synchronize();  // over since it was thrown
    }
    Ref<tcp::Group> all;  // null if the group was destroyed and only its Work is left
    {
      const Lock lock(mutex_);
      all = inner_.all;
      if (all) asked_at_ = Deadline::Clock::now();
    }
    if (all) all->ask_peers();
  }
  work->synchronize();
}

void Core::release_finished() {
  if (is_in_child()) return;
  std::vector<Ref<Operation>> over;  // dropped after the lock
  const Lock lock(mutex_);
  over = operations_.take_settled(false);
}

std::vector<Ref<Work>> Core::under_way() {
  const Lock lock(mutex_);
  return operations_.under_way();
}

bool Core::may_be_over(const Operation& op) noexcept {
  if (is_in_child()) return true;  // no thread drives it in a child
  const Lock lock(mutex_);
  if (!op.is_settled() && !is_urgent_) {
    is_urgent_ = true;
    changed_.notify_all();
  }
  return op.is_settled() && operations_.are_earlier_over(op);
}

void Core::wait(Operation& op, std::optional<std::chrono::nanoseconds> limit) {
  if (is_in_child()) {
    if (const std::exception_ptr error = error_of(op)) std::rethrow_exception(error);
    return;
  }
  const profiler::Span span = wait_span();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  Lock lock(mutex_);
  if (limit && !op.is_settled()) {
    // The driving thread cannot leave an inner wait early, so let the progress thread drive.
    is_urgent_ = true;
    changed_.notify_all();
    if (!wait_until(changed_, lock.native(), until, [&] { return op.is_settled(); })) {
      const Ref<Work> work = waited_for_;
      lock.unlock();
      throw_not_over(op, *limit, work);
    }
  } else if (!op.is_settled()) {
    ++waiters_;
    while (!op.is_settled()) {
      if (is_driven_) {
        detail::wait_for_change(changed_, lock.native());
      } else {
        drive();
      }
    }
    --waiters_;
    changed_.notify_all();
  }
  std::vector<Ref<Operation>> earlier = operations_.settled_before(op);
  lock.unlock();
  for (const Ref<Operation>& other : earlier) wait_for_works(*other, limit, until);
  wait_for_works(op, limit, until);
  earlier.clear();
  const Ref<RefCounted> owner = op.release_owner();
  release_finished();
  if (const std::exception_ptr error = error_of(op)) {
    stay_if_exiting();
    std::rethrow_exception(error);
  }
}

// Waits even for the parts of a failed operation: after they end, no rank writes into the buffers.
void Core::wait_for_works(const Operation& op, std::optional<std::chrono::nanoseconds> limit,
                          Deadline until) {
  op.progress().for_each_work([&](const Ref<Work>& work) {
    try {
      if (limit) {
        work->synchronize(until.left());
      } else {
        wait_for(op, work);
      }
    } catch (const std::exception&) {
      if (limit && !work->is_completed()) throw_not_over(op, *limit, work);
    }
  });
}

Ref<SymmetricMemory> Core::allocate_on_node(std::size_t bytes) {
  // A rank that is alone on its node has no rank to share with, so ordinary memory will do.
  if (!inner_.in || !inner_.out) return make_ordinary_memory(bytes, {});
  Ref<SymmetricMemory> memory = inner_.in->allocate_with(*inner_.out, bytes);
  const Lock lock(mutex_);
  operations_.set_calls(Lane::kIn, inner_.in->calls());
  operations_.set_calls(Lane::kOut, inner_.out->calls());
  return memory;
}

Inner Core::inner() noexcept {
  const Lock lock(mutex_);
  return inner_;
}

std::exception_ptr Core::error() noexcept {
  if (is_in_child()) return inner_.all->error();
  {
    const Lock lock(mutex_);
    if (operations_.error() || !inner_.all) return operations_.error();
  }
  const Inner groups = inner();
  const std::optional<Cause> found = groups.cause();
  if (!found) return nullptr;
  fail(*found, {}, groups.all->error() ? std::optional(kAsHeard) : std::nullopt);
  return std::make_exception_ptr(GroupError(*found));
}

void Core::throw_if_broken() {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

tcp::Group& Core::pass_on() {
  // If the group of all ranks is broken it refuses the call itself, and quotes the call in the
  // error.
  if (error() && !all().error()) throw_if_broken();
  return all();
}

void Core::fail_in(const Operation& op, const std::exception_ptr& error) noexcept {
  const std::uint64_t before = op.sequence() - 1;
  try {
    Cause cause = cause_of(error);
    if (!op.is_agreed()) cause.is_whole = true;
    fail(in_operation(std::move(cause), op.descriptor()), op.limit().timeout, before);
  } catch (...) {
    fail(Cause{}, {}, before);  // out of memory
  }
}

void Core::fail(Cause cause, std::chrono::nanoseconds timeout,
                std::optional<std::uint64_t> completes_until) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  // The inner groups have said goodbye: what they refuse now is no failure.
  if (at_exit_.has_left()) stay_if_exiting();
  Inner groups;
  std::optional<Deadline::Clock::time_point> asked_at;
  {
    Lock lock(mutex_);
    if (operations_.error()) {
      lock.unlock();
      // An operation that should still complete, but fails, ends with the first cause.
      return complete_only(completes_until);
    }
    groups = inner_;
    asked_at = asked_at_;
    if (timeout == std::chrono::nanoseconds::zero()) {
      timeout = operations_.is_empty() ? std::chrono::nanoseconds::max()
                                       : operations_.front().limit().timeout;
    }
  }
  if (cause.kind == ErrorKind::kTimeout && groups.all) {
    const std::chrono::nanoseconds answer = Stagger(timeout).answer;
    // An old probe was for an earlier operation.
    if (asked_at && Deadline::Clock::now() - *asked_at >= 2 * answer) asked_at.reset();
    groups.blame_silent_ranks(cause, asked_at, answer);
  }
  bool is_reported = false;
  {
    Lock lock(mutex_);
    if (operations_.error()) {
      lock.unlock();
      return complete_only(completes_until);
    }
    // A cause that all ranks have heard counts before one that this rank has found.
    const std::exception_ptr heard = inner_.all ? inner_.all->error() : nullptr;
    if (heard) cause = cause_of(heard);
    is_reported = heard != nullptr;
    std::uint64_t until = completes_until.value_or(completed());
    if (heard) until = std::min(until, inner_.all->completes_until());
    if (cause.found_by < 0 && groups.all) cause.found_by = groups.all->rank_in_job();
    operations_.fail(cause, until);
    end_later();
  }
  if (groups.all && !is_reported) {
    cause = as_told(std::move(cause), groups.all->rank_in_job());
  }
  if (rendezvous::blames(cause.blame) && !is_reported) {
    rendezvous::report_peer_failure(
        {.cause = cause, .call = groups.all ? groups.all->own_call() : std::string()});
  }
  tell_inner_groups();
}

void Core::complete_only(std::optional<std::uint64_t> until) noexcept {
  {
    const Lock lock(mutex_);
    if (!operations_.complete_only(until.value_or(completed()))) return;
    end_later();
  }
  tell_inner_groups();
}

void Core::end_later() noexcept {
  if (!is_driven_) operations_.end_all();
  changed_.notify_all();
}

void Core::tell_inner_groups() noexcept {
  Inner groups;
  std::optional<Cause> cause;
  std::uint64_t completes_until = 0;
  LaneCalls calls;
  {
    const Lock lock(mutex_);
    groups = inner_;
    cause = operations_.cause();
    completes_until = operations_.completes_until();
    calls = operations_.completing_calls();
  }
  groups.fail(*cause, completes_until, calls);
}

std::uint64_t Core::completed() const noexcept {
  return operations_.completed(inner_.all ? inner_.all->completed() : 0);
}

std::exception_ptr Core::error_of(const Operation& op) noexcept {
  if (is_in_child() && !op.is_settled()) return error();
  const std::exception_ptr found = op.progress().error();
  if (!found || is_in_child()) return found ? found : op.settled_error();
  fail_in(op, found);
  const Lock lock(mutex_);
  return operations_.error();
}

// Runs before the inner groups do the same: they are older.
void Core::leave_at_exit() {
  Lock lock(mutex_);
  is_urgent_ = true;
  changed_.notify_all();
  const Deadline last = Deadline::after(kExitTime);
  const auto is_over = [this]() DL_REQUIRES(mutex_) {
    return calling_ == 0 && (operations_.is_empty() ||
                             (operations_.error() && !operations_.completes(operations_.front())));
  };
  for (std::uint64_t seen = steps_;; seen = steps_) {
    const auto moved = [&]() DL_REQUIRES(mutex_) { return is_over() || steps_ != seen; };
    if (is_over() || last.has_passed()) break;
    if (!wait_until(changed_, lock.native(), Deadline::after(kExitQuiet), moved)) break;
  }
  has_left_ = true;
}

void Core::stop() noexcept {
  if (at_exit_.keeps({this}, is_in_child())) return;
  std::optional<Descriptor> under_way;
  {
    const Lock lock(mutex_);
    if (!operations_.is_empty()) under_way = operations_.front().descriptor();
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (under_way) {
    fail(cause_of_destruction(inner_.all->name(), inner_.all->own_identity().text(), &*under_way));
  }
  thread_.join();
  Inner groups;
  std::vector<Ref<Operation>> over;
  {
    Lock lock(mutex_);
    wait_until(changed_, lock.native(), Deadline::never(),
               [this]() DL_REQUIRES(mutex_) { return !is_driven_; });
    operations_.complete_only(0);
    operations_.end_all();
    over = operations_.take_settled(true);
    std::swap(groups, inner_);
  }
  // Ends operations that are under way in the last lane.
  groups = {};
}

}  // namespace dl::collectives::hybrid
