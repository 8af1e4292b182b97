#include "collectives/hybrid/core.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <functional>

#include "collectives/call/recording.h"
#include "collectives/reduce/reduce.h"
#include "collectives/waiting/still_running.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/thread.h"

namespace dl::collectives::hybrid {
namespace {

using namespace std::chrono_literals;

// Slices on their way between nodes at a time: the link stays busy while one slice is received and
// the next one is summed.
constexpr std::size_t kAhead = 4;
// How late the thread takes up an operation for which no thread waits: most callers wait at once.
constexpr auto kTakeUpTime = 1ms;
// Limits of Stagger's times: the most, and the part of a timeout.
constexpr std::chrono::nanoseconds kMostStep = 10ms;
constexpr int kStepsADeadline = 20;
constexpr std::chrono::nanoseconds kMostAnswer = 500ms;
constexpr int kAnswersADeadline = 10;

constexpr auto kIn = static_cast<std::size_t>(Lane::kIn);
constexpr auto kCross = static_cast<std::size_t>(Lane::kCross);
constexpr auto kOut = static_cast<std::size_t>(Lane::kOut);

}  // namespace

Stagger::Stagger(std::chrono::nanoseconds timeout) noexcept
    : step(std::min(kMostStep, timeout / kStepsADeadline)),
      answer(std::min(kMostAnswer, timeout / kAnswersADeadline)) {}

std::chrono::nanoseconds Stagger::of(Lane lane, std::chrono::nanoseconds left) const noexcept {
  const std::chrono::nanoseconds later = (static_cast<int>(lane) + 1) * step;
  return left > std::chrono::nanoseconds::max() - later ? std::chrono::nanoseconds::max()
                                                        : std::max(left, 0ns) + later;
}

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
  const profiler::Span span = call_span(operation->descriptor_);
  const std::lock_guard order(submit_mutex_);
  tcp::Group& group = pass_on();
  {
    // Count before the operation has a number: an abort that arrives meanwhile may spare it in the
    // lanes.
    const Lock lock(mutex_);
    if (has_left_) {
      throw_error(ErrorKind::kAborted, "{}: this rank has left group '{}' by exit()",
                  text(operation->descriptor_), group.name());
    }
    ++calling_;
    const LaneCalls calls = operation->calls();
    std::ranges::transform(calls_, calls, calls_.begin(), std::plus());
  }
  std::exception_ptr refusal;
  try {
    operation->agreement_ = group.agree(operation->descriptor_, {.timeout = operation->timeout_});
  } catch (...) {
    refusal = std::current_exception();
  }
  bool is_broken = false;
  {
    const Lock lock(mutex_);
    --calling_;
    changed_.notify_all();
    is_broken = error_ != nullptr;
    if (!refusal && is_broken && !is_spared(*operation)) refusal = error_;
    if (!refusal) {
      queue_.push_back(operation);
      return;
    }
    const LaneCalls calls = operation->calls();
    std::ranges::transform(calls_, calls, calls_.begin(), std::minus());
  }
  // The lanes may have been told to spare its calls, which never come.
  if (is_broken) tell_inner_groups();
  std::rethrow_exception(refusal);
}

void Core::run() {
  // Signals belong to the program's threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "dlrun-hybrid");
  use_all_bound_cpus();
  const auto may_drive = [this] { return !queue_.empty() && waiters_ == 0 && !is_driven_; };
  Lock lock(mutex_);
  bool is_warm = false;
  while (!is_stopping_) {
    if (!may_drive()) {
      is_warm = is_warm && !queue_.empty();
      changed_.wait(lock);
    } else if (is_warm || is_urgent_) {
      drive(lock);
    } else {
      is_warm = !changed_.wait_for(lock, kTakeUpTime,
                                   [&] { return is_stopping_ || is_urgent_ || !may_drive(); });
    }
  }
}

void Core::drive(Lock& lock) {
  is_driven_ = true;
  std::vector<Ref<Operation>> operations(queue_.begin(), queue_.end());
  lock.unlock();
  step(operations);
  // Drop these references now, so that a caller drops the last reference to an operation.
  operations.clear();
  lock.lock();
  waited_for_ = nullptr;
  is_driven_ = false;
  ++steps_;
  while (!queue_.empty() && queue_.front()->begun_[kOut] == queue_.front()->slices_.size()) {
    settle(*queue_.front());
    queue_.pop_front();
  }
  if (error_) end_all();
  if (queue_.empty()) is_urgent_ = false;
  changed_.notify_all();
}

void Core::step(const std::vector<Ref<Operation>>& operations) noexcept {
  const Operation& first = *operations.front();
  const Operation* current = &first;
  try {
    bool is_cross_open = true;
    bool is_out_open = true;
    for (const Ref<Operation>& op : operations) {
      current = op.get();
      if (!op->is_agreed_) {
        if (!is_over(op->agreement_)) break;
        op->is_agreed_ = true;
      }
      advance(*op, is_cross_open, is_out_open);
    }
    current = &first;
    if (first.is_agreed_ && first.begun_[kOut] == first.slices_.size()) return;
    const Ref<Work>& work = next_work(first);
    {
      const Lock lock(mutex_);
      if (error_ && !is_spared(first)) return;
      waited_for_ = work;
    }
    wait_for(first, work);
  } catch (const std::exception&) {
    fail_in(*current, std::current_exception());
  }
}

// Probes all ranks so early that the answers have arrived by the deadline.
void Core::wait_for(const Operation& op, const Ref<Work>& work) {
  const std::chrono::nanoseconds before = op.deadline_.left() - Stagger(op.timeout_).answer;
  if (before > 0ns && op.timeout_ != std::chrono::nanoseconds::max()) {
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

// An operation begins in a lane after all earlier operations have begun there.
void Core::advance(Operation& op, bool& is_cross_open, bool& is_out_open) {
  const std::size_t slices = op.slices_.size();
  while (op.begun_[kIn] < slices) begin(op, Lane::kIn);
  while (is_cross_open && op.begun_[kCross] < slices &&
         is_over(op.works_[op.begun_[kCross]][kIn])) {
    begin(op, Lane::kCross);
  }
  is_cross_open = is_cross_open && op.begun_[kCross] == slices;
  while (is_out_open && op.begun_[kOut] < op.begun_[kCross] &&
         is_over(op.works_[op.begun_[kOut]][kCross])) {
    const Division& d = op.slices_[op.begun_[kOut]].division;
    if (d.ranks > 0) finish(d.dtype, ReduceOp::kAvg, d.data, d.count, d.ranks);
    begin(op, Lane::kOut);
  }
  is_out_open = is_out_open && op.begun_[kOut] == slices;
}

const Ref<Work>& Core::next_work(const Operation& op) noexcept {
  if (!op.is_agreed_) return op.agreement_;
  const std::size_t next_cross = op.begun_[kCross];
  const std::size_t next_out = op.begun_[kOut];
  const bool keeps_line_busy = next_cross < op.slices_.size() && next_cross - next_out < kAhead;
  return keeps_line_busy || next_out == next_cross ? op.works_[next_cross][kIn]
                                                   : op.works_[next_out][kCross];
}

bool Core::is_over(const Ref<Work>& work) {
  if (!work) return true;
  if (!work->is_completed()) return false;
  if (const std::exception_ptr error = work->error()) std::rethrow_exception(error);
  return true;
}

void Core::begin(Operation& op, Lane lane) {
  const auto at = static_cast<std::size_t>(lane);
  const std::size_t slice = op.begun_[at];
  // The agreement and earlier lanes time out first: ranks may still wait there for the rank to
  // blame.
  const std::chrono::nanoseconds left = Stagger(op.timeout_).of(lane, op.deadline_.left());
  if (std::optional<Call>& call = op.slices_[slice].calls[at]) {
    const CallOptions options{.timeout = left};
    call->options = &options;
    op.works_[slice][at] = inner_.lanes[at]->start(*call);
    call->options = nullptr;
  }
  ++op.begun_[at];
}

void Core::settle(Operation& op) {
  op.is_settled_ = true;
  op.settled_at_ = std::chrono::steady_clock::now();
  finished_.emplace_back(&op);
}

void Core::release_finished() {
  if (is_in_child()) return;
  std::vector<Ref<Operation>> over;
  const Lock lock(mutex_);
  const auto first_over = std::partition(finished_.begin(), finished_.end(),
                                         [](const auto& op) { return !op->are_works_over(); });
  over.assign(first_over, finished_.end());
  finished_.erase(first_over, finished_.end());
}

std::vector<Ref<Work>> Core::under_way() {
  const Lock lock(mutex_);
  std::vector<Ref<Work>> works;
  for (const Ref<Operation>& op : finished_) {
    if (!op->are_works_over()) works.emplace_back(op);
  }
  works.insert(works.end(), queue_.begin(), queue_.end());
  return works;
}

// Operations before a settled one are settled too.
bool Core::are_earlier_over(const Operation& op) const noexcept {
  return std::all_of(finished_.begin(), finished_.end(), [&](const Ref<Operation>& other) {
    return other->descriptor_.sequence >= op.descriptor_.sequence || other->are_works_over();
  });
}

bool Core::may_be_over(const Operation& op) noexcept {
  if (is_in_child()) return true;  // no thread drives it in a child
  const Lock lock(mutex_);
  if (!op.is_settled_ && !is_urgent_) {
    is_urgent_ = true;
    changed_.notify_all();
  }
  return op.is_settled_ && are_earlier_over(op);
}

void Core::wait(Operation& op, std::optional<std::chrono::nanoseconds> limit) {
  if (is_in_child()) {
    if (const std::exception_ptr error = error_of(op)) std::rethrow_exception(error);
    return;
  }
  const profiler::Span span = wait_span();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  Lock lock(mutex_);
  if (limit && !op.is_settled_) {
    // The driving thread cannot leave an inner wait early, so let the progress thread drive.
    is_urgent_ = true;
    changed_.notify_all();
    if (!wait_until(changed_, lock, until, [&] { return op.is_settled_; })) {
      const Ref<Work> work = waited_for_;
      lock.unlock();
      throw_not_over(op, *limit, work);
    }
  } else if (!op.is_settled_) {
    ++waiters_;
    while (!op.is_settled_) {
      if (is_driven_) {
        changed_.wait(lock);
      } else {
        drive(lock);
      }
    }
    --waiters_;
    changed_.notify_all();
  }
  std::vector<Ref<Operation>> earlier;
  for (const Ref<Operation>& other : finished_) {
    if (other->descriptor_.sequence < op.descriptor_.sequence) earlier.push_back(other);
  }
  lock.unlock();
  for (const Ref<Operation>& other : earlier) wait_for_works(*other, limit, until);
  wait_for_works(op, limit, until);
  earlier.clear();
  Ref<RefCounted> owner;
  lock.lock();
  owner = std::exchange(op.owner_, nullptr);
  lock.unlock();
  release_finished();
  if (const std::exception_ptr error = error_of(op)) {
    stay_if_exiting();
    std::rethrow_exception(error);
  }
}

// Waits even for the parts of a failed operation: after they end, no rank writes into the buffers.
void Core::wait_for_works(const Operation& op, std::optional<std::chrono::nanoseconds> limit,
                          Deadline until) {
  for (const auto& lanes : op.works_) {
    for (const Ref<Work>& work : lanes) {
      if (!work) continue;
      try {
        if (limit) {
          work->synchronize(until.left());
        } else {
          wait_for(op, work);
        }
      } catch (const std::exception&) {
        if (limit && !work->is_completed()) throw_not_over(op, *limit, work);
      }
    }
  }
}

}  // namespace dl::collectives::hybrid
