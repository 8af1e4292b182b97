// Core's functions that find failures and tell all ranks the cause.
#include <algorithm>
#include <functional>
#include <limits>

#include "collectives/hybrid/core.h"
#include "collectives/waiting/still_running.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::hybrid {
namespace {

// Spares the operations that the group of all ranks reports as spared.
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

// A rank that waits in one lane may time out on a rank that itself waits for the failed rank in
// another lane, or could not call at all because of it. Blames a rank that gives no sign of life
// instead. `asked`: when all ranks were probed; nullopt: probe them now, and wait until the
// deadline.
void blame_silent_ranks(Cause& cause, tcp::Group& all,
                        std::optional<Deadline::Clock::time_point> asked, Deadline until) noexcept
    try {
  const auto now = Deadline::Clock::now();
  if (!asked) all.ask_peers();
  const std::vector<Identity> silent = all.silent_peers(asked.value_or(now), until);
  std::string names;
  for (const Identity& who : silent) {
    if (who.in_job() == cause.rank) return;  // the text names it already
    names += fmt::format("{}{}", names.empty() ? "" : "; ", who.text());
  }
  if (silent.empty()) return;
  cause.blame = Blame::kMissing;
  cause.rank = silent.front().in_job();
  cause.text += fmt::format(
      "; probable cause: {}, which does not answer (stopped, or its host cannot be reached)",
      names);
} catch (...) {
  // Out of memory: leave the cause as it is.
}

}  // namespace

Inner Core::inner() noexcept {
  const Lock lock(mutex_);
  return inner_;
}

std::exception_ptr Core::error() noexcept {
  if (is_in_child()) return inner_.all->error();
  {
    const Lock lock(mutex_);
    if (error_ || !inner_.all) return error_;
  }
  const Inner groups = inner();
  std::exception_ptr found = groups.all->error();
  for (const Ref<ProcessGroup>& lane : groups.lanes) {
    if (found || !lane) continue;
    found = lane->error();
    // A cause that another rank has found also reaches the group of all ranks, with what it spares.
    if (found && cause_of(found).found_by != groups.all->identity().in_job()) found = nullptr;
  }
  if (found)
    fail(cause_of(found), {}, groups.all->error() ? std::optional(kAsHeard) : std::nullopt);
  return found;
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
    if (!op.is_agreed_) cause.is_whole = true;
    fail(in_operation(std::move(cause), op.descriptor_), op.timeout_, before);
  } catch (...) {
    fail(Cause{}, {}, before);  // out of memory
  }
}

void Core::fail(Cause cause, std::chrono::nanoseconds timeout,
                std::optional<std::uint64_t> spared) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  // The inner groups have said goodbye: what they refuse now is no failure.
  if (at_exit_.has_left()) stay_if_exiting();
  Inner groups;
  std::optional<Deadline::Clock::time_point> asked_at;
  {
    Lock lock(mutex_);
    if (error_) {
      lock.unlock();
      // A spared operation that fails ends with the first cause.
      return spare_only(spared);
    }
    groups = inner_;
    asked_at = asked_at_;
    if (timeout == std::chrono::nanoseconds::zero()) {
      timeout = queue_.empty() ? std::chrono::nanoseconds::max() : queue_.front()->timeout_;
    }
  }
  if (cause.kind == ErrorKind::kTimeout && groups.all) {
    const std::chrono::nanoseconds answer = Stagger(timeout).answer;
    const auto now = Deadline::Clock::now();
    // An old probe was for an earlier operation.
    const bool has_asked = asked_at && now - *asked_at < 2 * answer;
    if (!has_asked) asked_at.reset();
    blame_silent_ranks(cause, *groups.all, asked_at,
                       has_asked ? Deadline::at(*asked_at + answer) : Deadline::after(answer));
  }
  bool is_reported = false;
  {
    Lock lock(mutex_);
    if (error_) {
      lock.unlock();
      return spare_only(spared);
    }
    // A cause that all ranks have heard counts before one that this rank has found.
    const std::exception_ptr heard = inner_.all ? inner_.all->error() : nullptr;
    if (heard) cause = cause_of(heard);
    is_reported = heard != nullptr;
    spared_until_ = spared.value_or(completed());
    if (heard) spared_until_ = std::min(spared_until_, inner_.all->spared());
    if (cause.found_by < 0 && groups.all) cause.found_by = groups.all->identity().in_job();
    error_ = std::make_exception_ptr(GroupError(cause));
    if (!is_driven_) end_all();
    changed_.notify_all();
  }
  if (cause.blame != Blame::kNone && !is_reported) {
    rendezvous::report_peer_failure(
        {.cause = cause, .call = groups.all ? groups.all->own_call() : std::string()});
  }
  tell_inner_groups();
}

void Core::spare_only(std::optional<std::uint64_t> until) noexcept {
  {
    const Lock lock(mutex_);
    const std::uint64_t last = until.value_or(completed());
    if (last >= spared_until_) return;
    spared_until_ = last;
    if (!is_driven_) end_all();
    changed_.notify_all();
  }
  tell_inner_groups();
}

// Tells the group of all ranks first: it passes the number of the last spared operation, which
// lanes do not know.
void Core::tell_inner_groups() noexcept {
  Inner groups;
  std::exception_ptr cause;
  std::uint64_t spared = 0;
  LaneCalls calls{};
  {
    const Lock lock(mutex_);
    groups = inner_;
    cause = error_;
    spared = spared_until_;
    calls = calls_until(spared);
  }
  if (groups.all) groups.all->fail(cause, spared);
  for (std::size_t i = 0; i < kLanes; ++i) {
    // A lane of one rank has no peer to tell.
    if (!groups.lanes[i] || groups.lanes[i]->size() == 1) continue;
    groups.lanes[i]->fail(cause, calls[i]);
  }
}

std::uint64_t Core::completed() const noexcept {
  std::uint64_t last = inner_.all ? inner_.all->completed() : 0;
  const auto is_before = [&](const Ref<Operation>& op) {
    last = std::min(last, op->sequence() - 1);
  };
  for (const Ref<Operation>& op : finished_) {
    if (!op->are_works_over()) is_before(op);
  }
  std::ranges::for_each(queue_, is_before);
  return last;
}

LaneCalls Core::calls_until(std::uint64_t sequence) const noexcept {
  LaneCalls until = calls_;
  const auto leave_out = [&](const Ref<Operation>& op) {
    if (op->sequence() <= sequence) return;
    const LaneCalls calls = op->calls();
    std::ranges::transform(until, calls, until.begin(), std::minus());
  };
  std::ranges::for_each(finished_, leave_out);
  std::ranges::for_each(queue_, leave_out);
  return until;
}

void Core::count_calls(Lane lane, std::uint64_t calls) noexcept {
  const Lock lock(mutex_);
  calls_[static_cast<std::size_t>(lane)] = calls;
}

void Core::end_all() {
  while (!queue_.empty() && !is_spared(*queue_.back())) {
    queue_.back()->error_ = error_;
    settle(*queue_.back());
    queue_.pop_back();
  }
}

std::exception_ptr Core::error_of(const Operation& op) noexcept {
  if (is_in_child()) {
    if (!op.is_settled_) return error();
    for (const auto& lanes : op.works_) {
      for (const Ref<Work>& work : lanes) {
        if (const std::exception_ptr error = work ? work->error() : nullptr) return error;
      }
    }
    return op.error_;
  }
  for (const auto& lanes : op.works_) {
    for (const Ref<Work>& work : lanes) {
      const std::exception_ptr error = work ? work->error() : nullptr;
      if (!error) continue;
      fail_in(op, error);
      const Lock lock(mutex_);
      return error_;
    }
  }
  const Lock lock(mutex_);
  return op.error_;
}

void Core::throw_not_over(const Operation& op, std::chrono::nanoseconds limit,
                          const Ref<Work>& work) {
  stay_if_exiting();
  std::string why = "waiting for its own part";
  try {
    if (work) work->synchronize(std::chrono::nanoseconds(0));
  } catch (const StillRunning& inner) {
    why = inner.operation() == text(op.descriptor_)
              ? inner.missing()
              : fmt::format("in {}, {}", inner.operation(), inner.missing());
  } catch (const Error& error) {
    why = error.what();
  }
  throw StillRunning(text(op.descriptor_), limit, why);
}

// Runs before the inner groups do the same: they are older.
void Core::leave_at_exit() {
  Lock lock(mutex_);
  is_urgent_ = true;
  changed_.notify_all();
  const Deadline last = Deadline::after(kExitTime);
  for (std::uint64_t seen = steps_;; seen = steps_) {
    const auto is_over = [this] {
      return calling_ == 0 && (queue_.empty() || (error_ && !is_spared(*queue_.front())));
    };
    const auto moved = [&] { return is_over() || steps_ != seen; };
    if (is_over() || last.has_passed()) break;
    if (!wait_until(changed_, lock, Deadline::after(kExitQuiet), moved)) break;
  }
  has_left_ = true;
}

void Core::stop() noexcept {
  if (is_in_child()) {
    // The progress thread does not exist in the child, and the child must not say goodbye to the
    // peers: change nothing.
    retain();
    return;
  }
  if (at_exit_.has_left()) {
    AtExit::keep(Ref<Core>(this));
    return;
  }
  bool is_busy = false;
  {
    const Lock lock(mutex_);
    is_busy = !queue_.empty();
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (is_busy) {
    fail({.kind = ErrorKind::kAborted,
          .text = fmt::format("{} destroyed group '{}' while an operation was under way",
                              inner_.all->identity().text(), inner_.all->name())});
  }
  thread_.join();
  Inner groups;
  std::vector<Ref<Operation>> over;
  {
    Lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_driven_; });
    spared_until_ = 0;
    end_all();
    over.swap(finished_);
    std::swap(groups, inner_);
  }
  // Ends operations that are under way in the last lane.
  groups = {};
}

}  // namespace dl::collectives::hybrid
