// Core's half that finds out what went wrong and says it to everybody.
#include "collectives/hybrid/core.h"
#include "collectives/not_over.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::hybrid {
namespace {

// A cause that an inner operation found says nothing of the operation that was called.
Cause in_operation(Cause cause, const Descriptor& what) {
  if (cause.is_whole || cause.operation.empty()) return cause;
  cause.text = fmt::format("{}, in its {}", text(what), cause.text);
  cause.operation = title(what);
  cause.sequence = what.sequence;
  cause.is_whole = true;
  return cause;
}

// A rank that waits in one lane may time out on one that waits in another for the culprit, or that
// the culprit keeps from calling at all. A rank that gives no sign of life is to blame.
// `asked`: when they were asked whether they are there; never: they are now, and have until the
// deadline.
void blame_silent_ranks(Cause& cause, tcp::Group& all,
                        std::optional<Deadline::Clock::time_point> asked, Deadline until) noexcept
    try {
  const auto now = Deadline::Clock::now();
  if (!asked) all.ask_peers();
  const std::vector<Identity> silent = all.silent_peers(asked.value_or(now), until);
  std::string names;
  for (const Identity& who : silent) {
    if (who.in_job() == cause.rank) return;  // the text says so
    names += fmt::format("{}{}", names.empty() ? "" : "; ", who.text());
  }
  if (silent.empty()) return;
  cause.blame = Blame::kMissing;
  cause.rank = silent.front().in_job();
  cause.text += fmt::format(
      "; behind it stands {}, which does not answer (stopped, or its host cannot be reached)",
      names);
} catch (...) {
  // Out of memory: what was found stays as it is.
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
    if (!found && lane) found = lane->error();
  }
  if (found) adopt(found, nullptr);
  return found;
}

void Core::throw_if_broken() {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

tcp::Group& Core::pass_on() {
  // The group of all ranks refuses by itself, and sees what was called.
  if (error() && !all().error()) throw_if_broken();
  return all();
}

void Core::rethrow(const Operation& op, const Ref<Work>& work, const std::exception_ptr& error) {
  Cause cause = cause_of(error);
  if (work == op.agreement_) cause.is_whole = true;
  throw GroupError(in_operation(std::move(cause), op.descriptor_));
}

void Core::adopt(const std::exception_ptr& error, const Descriptor* what,
                 std::chrono::nanoseconds timeout) noexcept {
  try {
    fail(what == nullptr ? cause_of(error) : in_operation(cause_of(error), *what), timeout);
  } catch (...) {
    fail(Cause{});  // out of memory
  }
}

void Core::fail(Cause cause, std::chrono::nanoseconds timeout) noexcept {
  if (is_in_child()) return;  // it does not speak for the rank
  Inner groups;
  std::optional<Deadline::Clock::time_point> asked_at;
  {
    const Lock lock(mutex_);
    if (error_) return;
    groups = inner_;
    asked_at = asked_at_;
    if (timeout == std::chrono::nanoseconds::zero()) {
      timeout = queue_.empty() ? std::chrono::nanoseconds::max() : queue_.front()->timeout_;
    }
  }
  if (cause.kind == ErrorKind::kTimeout && groups.all) {
    const std::chrono::nanoseconds answer = Stagger(timeout).answer;
    const auto now = Deadline::Clock::now();
    // What was asked long ago was for an operation before.
    const bool has_asked = asked_at && now - *asked_at < 2 * answer;
    if (!has_asked) asked_at.reset();
    blame_silent_ranks(cause, *groups.all, asked_at,
                       has_asked ? Deadline::at(*asked_at + answer) : Deadline::after(answer));
  }
  bool is_reported = false;
  {
    const Lock lock(mutex_);
    if (error_) return;
    // What all ranks have heard goes before what this one has found.
    const std::exception_ptr heard = inner_.all ? inner_.all->error() : nullptr;
    if (heard) cause = cause_of(heard);
    is_reported = heard != nullptr;
    if (cause.found_by < 0 && groups.all) cause.found_by = groups.all->identity().in_job();
    error_ = std::make_exception_ptr(GroupError(cause));
    if (!is_conducted_) end_all();
    changed_.notify_all();
  }
  if (cause.blame != Blame::kNone && !is_reported) {
    rendezvous::report_peer_failure(
        {.cause = cause, .call = groups.all ? groups.all->own_call() : std::string()});
  }
  const std::exception_ptr known = std::make_exception_ptr(GroupError(cause));
  if (groups.all) groups.all->fail(known);
  for (const Ref<ProcessGroup>& lane : groups.lanes) {
    if (lane) lane->fail(known);
  }
}

void Core::end_all() {
  for (const Ref<Operation>& op : queue_) {
    op->error_ = error_;
    settle(*op);
  }
  queue_.clear();
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
      adopt(error, &op.descriptor_, op.timeout_);
      const Lock lock(mutex_);
      return error_;
    }
  }
  const Lock lock(mutex_);
  return op.error_;
}

void Core::throw_not_over(const Operation& op, std::chrono::nanoseconds limit,
                          const Ref<Work>& work) {
  std::string why = "waiting for its own part";
  try {
    if (work) work->synchronize(std::chrono::nanoseconds(0));
  } catch (const NotOver& inner) {
    why = inner.operation() == text(op.descriptor_)
              ? inner.missing()
              : fmt::format("in {}, {}", inner.operation(), inner.missing());
  } catch (const Error& error) {
    why = error.what();
  }
  throw NotOver(op.descriptor_, limit, why);
}

// The inner groups, which are older, do the same after it.
void Core::leave_at_exit() {
  Lock lock(mutex_);
  is_urgent_ = true;
  changed_.notify_all();
  const Deadline last = Deadline::after(kExitTime);
  for (std::uint64_t seen = steps_;; seen = steps_) {
    const auto is_over = [this] { return queue_.empty() || error_; };
    const auto moved = [&] { return is_over() || steps_ != seen; };
    if (is_over() || last.has_passed()) return;
    if (!wait_until(changed_, lock, Deadline::after(kExitQuiet), moved)) return;
  }
}

void Core::stop() noexcept {
  if (is_in_child()) {
    // Its thread is not here to be joined, nor are its peers to be told: it stays as it is.
    retain();
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
    changed_.wait(lock, [this] { return !is_conducted_; });
    end_all();
    over.swap(finished_);
    std::swap(groups, inner_);
  }
  // Ends what is on its way in the last lane.
  groups = {};
}

}  // namespace dl::collectives::hybrid
