// Core's watcher: what is over, what is late, what is broken, and the end of it all.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "collectives/nccl/core.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/cuda/graph.h"

namespace dl::collectives::nccl {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kIdleNap = 100ms;
constexpr std::chrono::nanoseconds kShortestNap = 20us;
constexpr std::chrono::nanoseconds kLongestNap = 1ms;
constexpr auto kAnswerEvery = 250ms;

double seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

ErrorKind kind_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.kind();
  } catch (...) {
    return ErrorKind::kInternal;
  }
}

void end_this_process(const std::string& text) {
  log::write(log::Level::kError, text);
  std::_Exit(1);  // no destructor: they would wait for the GPU
}

}  // namespace

void Core::watch() noexcept {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    lock.unlock();
    look();
    std::chrono::nanoseconds nap = kIdleNap;
    try {
      nap = advance();
    } catch (const std::exception& error) {  // a CUDA call: the device is lost
      poison(std::current_exception(), error.what(), true);
    }
    lock.lock();
    changed_.wait_for(lock, nap, [&] {
      return stops_ || (error_ && !is_over_) || (nap == kIdleNap && !error_ && !pending_.empty());
    });
  }
  lock.unlock();
  if (!is_over_ && error() == nullptr && leave()) return;
  end_everything();
}

void Core::look() noexcept {
  if (is_over_) return;
  if (const std::exception_ptr cause = options_.host->error()) {
    poison(cause, "the host group is broken", false);
  }
  int state = kSuccess;
  if (error() == nullptr) {
    if (const int code = nccl_.async_error(comm_, &state)) state = code;
  }
  if (state != kSuccess && state != kInProgress) {
    std::string during;
    {
      const std::lock_guard lock(mutex_);
      if (!pending_.empty()) during = text(pending_.front()->descriptor_) + ": ";
    }
    const std::string why =
        fmt::format("{}group '{}': NCCL says: {}", during, name_, nccl_text(state));
    poison(state == kRemoteError ? ErrorKind::kPeerFailed : ErrorKind::kConnection, why, true);
  }
  if (error() != nullptr) return end_everything();
  if (options_.notices && Clock::now() >= next_answer_) {
    Notices::Place place;
    {
      const std::lock_guard lock(mutex_);
      place = place_;
    }
    options_.notices->answer(name_, rank(), place, asked_);
    next_answer_ = Clock::now() + kAnswerEvery;
  }
}

std::chrono::nanoseconds Core::advance() {
  while (true) {
    Ref<Operation> front;
    bool is_launched = false;
    {
      const std::lock_guard lock(mutex_);
      if (error_ || pending_.empty()) return kIdleNap;
      front = pending_.front();
      is_launched = front->launched_;
    }
    const Clock::time_point now = Clock::now();
    if (is_launched && !front->started_ && cuda_.query_event(front->begin_)) {
      const std::lock_guard lock(mutex_);
      front->started_ = true;
      front->clock_ = now;
      last_change_ = now;
      log_.start(front->slot_);
    }
    if (is_launched && front->started_ && cuda_.query_event(front->end_)) {
      const std::lock_guard lock(mutex_);
      if (error_) return kIdleNap;
      log_.finish(front->slot_);
      front->end(nullptr);
      pending_.pop_front();
      last_change_ = now;
      continue;
    }
    // What waits behind the GPU's other work is not late.
    if (front->started_ || !is_launched) look_at_clock(front);
    return std::clamp<std::chrono::nanoseconds>((now - last_change_) / 16, kShortestNap,
                                                kLongestNap);
  }
}

void Core::look_at_clock(const Ref<Operation>& front) {
  const Clock::duration age = Clock::now() - front->clock_;
  const bool is_late = age >= front->timeout_;
  if (!is_late && (front->warned_ || age < options_.speak_after)) return;
  front->warned_ = true;
  const Missing missing = who_is_missing(front->descriptor_);
  if (options_.host->error() != nullptr) return;  // another rank knows more
  if (missing.is_mismatch) return poison(ErrorKind::kMismatch, missing.text, true);
  if (is_late) {
    return poison(ErrorKind::kTimeout,
                  fmt::format("{}: not over after {:.3g} s: {}", text(front->descriptor_),
                              seconds(front->timeout_), missing.text),
                  true);
  }
  log::warning("{}: waiting for {:.3g} s: {}", text(front->descriptor_), seconds(age),
               missing.text);
}

Core::Missing Core::who_is_missing(const Descriptor& what) {
  if (!options_.notices) return {"nobody says who is missing, as there is no store to ask through"};
  Notices::Place own;
  {
    const std::lock_guard lock(mutex_);
    own = place_;
  }
  const auto places = options_.notices->ask(
      name_, rank(), size(), own, asked_,
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.answer_patience),
      [this] { return error() != nullptr || options_.host->error() != nullptr; });
  if (!places) return {"the store does not say who is missing"};
  const bool is_message = what.op == OpKind::kSend || what.op == OpKind::kRecv;
  std::string list;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const std::optional<Notices::Place>& place = (*places)[static_cast<std::size_t>(r)];
    const std::string who = ranks_[static_cast<std::size_t>(r)].text();
    std::string said;
    if (!place) {
      said = fmt::format("{} does not answer, it is stopped or gone", who);
    } else if (is_message) {
      said = fmt::format("{}'s last collective was #{}", who, place->last_called);
    } else if (place->last_called < what.sequence) {
      said = fmt::format("{} has not called it (its last call was #{})", who, place->last_called);
    } else if (place->last_called == what.sequence && place->call != text(what)) {
      return {fmt::format("{} has called {}, {} has called {}; do all ranks make the same calls in "
                          "the same order?",
                          who, place->call, ranks_[static_cast<std::size_t>(rank())].text(),
                          text(what)),
              true};
    }
    if (!said.empty()) list += (list.empty() ? "" : "; ") + said;
  }
  if (list.empty()) list = "all ranks have called it, and a GPU or a link between GPUs is stuck";
  return {std::move(list)};
}

void Core::call_or_die(std::function<void()> end, const std::string& why) noexcept {
  struct Task {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
  };
  const auto task = std::make_shared<Task>();  // whoever is last drops it
  std::thread([task, end = std::move(end)] {
    end();
    const std::lock_guard lock(task->mutex);
    task->is_over = true;
    task->changed.notify_all();
  }).detach();
  std::unique_lock lock(task->mutex);
  if (task->changed.wait_for(lock, options_.abort_time, [&] { return task->is_over; })) return;
  lock.unlock();
  die(why);
}

void Core::die(const std::string& why) noexcept {
  const std::string text = fmt::format(
      "{}; NCCL has not given the communicator of group '{}' back after {:.3g} s, and this process "
      "ends, as the GPU may still write into its memory",
      why, name_, seconds(options_.abort_time));
  options_.end_process ? options_.end_process(text) : end_this_process(text);
}

bool Core::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!pending_.empty()) {
      error_text_ = fmt::format("{}: {} destroyed group '{}' while it was under way",
                                text(pending_.front()->descriptor_),
                                ranks_[static_cast<std::size_t>(rank())].text(), name_);
      error_ = std::make_exception_ptr(Error(ErrorKind::kAborted, error_text_));
      tells_ = true;
      poisoned_.store(true, std::memory_order_release);
      return false;
    }
  }
  // NCCL waits for those that hold its work.
  cuda::destroy_graphs_of(this);
  const Deadline until = Deadline::after(options_.abort_time);
  int state = nccl_.finalize(comm_);
  while (state == kInProgress && !until.has_passed()) {
    std::this_thread::sleep_for(1ms);
    if (const int code = nccl_.async_error(comm_, &state)) state = code;
  }
  const Comm comm = comm_.exchange(nullptr);
  call_or_die(
      [&nccl = nccl_, comm, state] { state == kSuccess ? nccl.destroy(comm) : nccl.abort(comm); },
      "leaving");
  return true;
}

void Core::end_everything() noexcept {
  if (is_over_) return;
  std::string why;
  std::exception_ptr cause;
  bool tells = false;
  {
    const std::lock_guard lock(mutex_);
    why = error_text_;
    cause = error_;
    tells = tells_;
    log_.broken(dl::name_of(kind_of(cause)), why);
  }
  if (tells) options_.host->abort(why);
  // A launch under way sees that the group is broken, and leaves NCCL alone.
  std::unique_lock launching(launch_mutex_, std::defer_lock);
  const Deadline until = Deadline::after(options_.abort_time);
  while (!launching.try_lock()) {
    if (until.has_passed()) die(why);
    std::this_thread::sleep_for(1ms);
  }
  if (const Comm comm = comm_.exchange(nullptr)) {
    call_or_die(
        [&nccl = nccl_, comm, owner = static_cast<const void*>(this)] {
          cuda::destroy_graphs_of(owner);
          nccl.abort(comm);
        },
        why);
  }
  std::deque<Ref<Operation>> over;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  over.swap(pending_);
  for (const Ref<Operation>& operation : over) {
    log_.fail(operation->slot_);
    operation->end(cause);
  }
  is_over_ = true;
}

}  // namespace dl::collectives::nccl
