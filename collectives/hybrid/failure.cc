// Core's half that finds out what went wrong and says it to everybody.
#include <algorithm>

#include "collectives/hybrid/core.h"
#include "collectives/shm/group.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::hybrid {
namespace {

// Between the operation that was called and that of an inner group in which it failed.
constexpr std::string_view kInside = ", in its ";
// How long a rank that runs may take to say so.
constexpr std::chrono::nanoseconds kAnswerTime = std::chrono::seconds(1);

struct Cause {
  ErrorKind kind = ErrorKind::kInternal;
  std::string text;
};

// `what`: the operation that was called; null: none.
Cause cause_of(const std::exception_ptr& error, const Descriptor* what) {
  Cause cause;
  try {
    std::rethrow_exception(error);
  } catch (const Error& failed) {
    cause = {failed.kind(), failed.what()};
  } catch (const std::exception& failed) {
    cause.text = failed.what();
  }
  // Only an inner operation's own words need the outer one's; others are about it already, or come
  // from a rank that has said what it was doing.
  const std::size_t colon = cause.text.find(':');
  const bool is_inner = cause.text.find(" #") < colon && !cause.text.starts_with("group '");
  if (what == nullptr || !is_inner || cause.text.starts_with(title(*what)) ||
      cause.text.find(kInside) != std::string::npos) {
    return cause;
  }
  cause.text = fmt::format("{}{}{}", text(*what), kInside, cause.text);
  return cause;
}

// A rank that waits in one lane may time out on one that waits in another for the culprit, or that
// the culprit keeps from calling at all. Whoever gives no sign of life is the cause.
void name_silent_ranks(Cause& cause, tcp::Group& all) noexcept try {
  const std::string silent = all.silent_peers(kAnswerTime);
  if (silent.empty() || cause.text.find(silent) != std::string::npos) return;
  cause.text.resize(std::min(cause.text.find(" waiting for "), cause.text.size()));
  cause.text += fmt::format(
      " behind {}, which does not answer (stopped, or its host cannot be reached)", silent);
} catch (...) {
  // Out of memory: what was found stays as it is.
}

int because_of(ProcessGroup& group) noexcept {
  if (auto* const shm = dynamic_cast<shm::Group*>(&group)) return shm->because_of();
  if (auto* const tcp = dynamic_cast<tcp::Group*>(&group)) return tcp->because_of();
  return -1;
}

void break_group(ProcessGroup& group, const Cause& cause) noexcept {
  if (auto* const shm = dynamic_cast<shm::Group*>(&group)) shm->fail(cause.kind, cause.text);
  if (auto* const tcp = dynamic_cast<tcp::Group*>(&group)) tcp->fail(cause.kind, cause.text);
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
  throw_if_broken();
  return all();
}

void Core::rethrow(const Operation& op, const std::exception_ptr& error) {
  const Cause cause = cause_of(error, &op.descriptor_);
  throw Error(cause.kind, cause.text);
}

void Core::adopt(const std::exception_ptr& error, const Descriptor* what) noexcept {
  try {
    const Cause cause = cause_of(error, what);
    fail(cause.kind, cause.text);
  } catch (...) {
    fail(ErrorKind::kInternal, {});  // out of memory
  }
}

void Core::fail(ErrorKind kind, const std::string& text) noexcept {
  if (is_in_child()) return;  // it does not speak for the rank
  Cause cause{kind, text};
  Inner groups;
  int culprit = -1;
  {
    const Lock lock(mutex_);
    if (error_) return;
    groups = inner_;
  }
  if (kind == ErrorKind::kTimeout && groups.all) name_silent_ranks(cause, *groups.all);
  {
    const Lock lock(mutex_);
    if (error_) return;
    // What all ranks have heard goes before what this one has found.
    const std::exception_ptr heard = inner_.all ? inner_.all->error() : nullptr;
    if (heard) cause = cause_of(heard, nullptr);
    error_ = std::make_exception_ptr(Error(cause.kind, cause.text));
    if (groups.all) culprit = groups.all->because_of();
    for (const Ref<ProcessGroup>& lane : groups.lanes) {
      if (culprit < 0 && lane) culprit = because_of(*lane);
    }
    if (!is_conducted_) end_all();
    changed_.notify_all();
  }
  if (culprit >= 0) {
    rendezvous::report_peer_failure({.peer = culprit,
                                     .operation = fmt::format("group {}", groups.all->name()),
                                     .text = cause.text});
  }
  if (groups.all) groups.all->fail(cause.kind, cause.text);
  for (const Ref<ProcessGroup>& lane : groups.lanes) {
    if (lane) break_group(*lane, cause);
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
      adopt(error, &op.descriptor_);
      const Lock lock(mutex_);
      return error_;
    }
  }
  const Lock lock(mutex_);
  return op.error_;
}

void Core::throw_not_over(const Operation& op, std::chrono::nanoseconds limit,
                          const Ref<Work>& work) {
  std::string why = "it has not begun";
  try {
    if (work) work->synchronize(std::chrono::nanoseconds(0));
  } catch (const Error& error) {
    why = error.what();
  }
  throw_error(ErrorKind::kTimeout, "{}: not over after {:.3g} s; {}", text(op.descriptor_),
              std::chrono::duration<double>(limit).count(), why);
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
    fail(ErrorKind::kAborted,
         fmt::format("{} destroyed group '{}' while an operation was under way",
                     inner_.all->identity().text(), inner_.all->name()));
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
