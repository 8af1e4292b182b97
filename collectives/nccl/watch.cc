// Core's watcher: finds operations that are over or late, finds failures, and ends the group.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "collectives/nccl/captured.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/thread.h"

namespace dl::collectives::nccl {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kIdleNap = 100ms;
// For this long after an operation the watcher polls often: another rank's error may have spoilt
// the result, and the program should learn of it soon. It also spares the next call from waking it.
constexpr auto kAlertTime = 200ms;
constexpr std::chrono::nanoseconds kAlertNap = 1ms;
constexpr std::chrono::nanoseconds kGoneGrace = 1s;
// The host group waits for a lost rank's last words, so NCCL may notice the loss before it does.
constexpr std::chrono::nanoseconds kNamingTime = 3s;
constexpr std::chrono::nanoseconds kShortestNap = 20us;
constexpr std::chrono::nanoseconds kLongestNap = 1ms;  // while an operation is under way
constexpr auto kAnswerEvery = 250ms;
// Time for NCCL to destroy a communicator: at the end of a program all ranks leave at about the
// same time.
constexpr auto kLeaveTime = 500ms;

double seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

void end_this_process(const std::string& text) {
  log::write(log::Level::kError, text);
  std::_Exit(1);  // no destructor: they would wait for the GPU
}

}  // namespace

// NCCL restores the thread's current device: in a thread without one this would be GPU 0, which may
// belong to another rank.
bool Core::are_through(std::vector<std::function<void()>> ends, std::chrono::nanoseconds time) {
  struct Tasks {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t left = 0;
  };
  // The last of the caller and the threads drops it.
  const auto tasks = std::make_shared<Tasks>();
  tasks->left = ends.size();
  try {
    for (std::function<void()>& end : ends) {
      make_thread(fmt::format("group '{}'", name_), [tasks, end = std::move(end), &cuda = cuda_,
                                                     device = options_.device] {
        cuda.adopt_device(device);
        end();
        const std::lock_guard lock(tasks->mutex);
        --tasks->left;
        tasks->changed.notify_all();
      }).detach();
    }
  } catch (const Error& error) {
    log::warning("{}", error.what());
    return false;
  }
  std::unique_lock lock(tasks->mutex);
  return tasks->changed.wait_for(lock, time, [&] { return tasks->left == 0; });
}

void Core::watch() noexcept {
  cuda_.adopt_device(options_.device);
  std::unique_lock lock(mutex_);
  while (!stops_) {
    lock.unlock();
    look();
    const std::chrono::nanoseconds nap = advance();
    lock.lock();
    is_idle_ = nap == kIdleNap;
    changed_.wait_for(lock, nap, [&] {
      const bool is_broken = error() != nullptr;
      return stops_ || (is_broken && !is_over_) ||
             (!is_broken &&
              (host_waits_ || (is_idle_ && !(pending_.empty() && launches_.empty()))));
    });
    is_idle_ = false;
    host_waits_ = false;
  }
  lock.unlock();
  if (!is_over_ && error() == nullptr && leave()) return;
  end_everything();
}

void Core::hear_host() noexcept {
  if (const std::exception_ptr cause = options_.host->error()) {
    poison(cause, cause_of(cause).text, false);
  }
}

void Core::look() noexcept {
  if (is_over_) return;
  hear_host();
  int state = kSuccess;
  // async_error() also takes over from the thread in which NCCL starts an operation, and two
  // threads must not do so at a time. A caller that holds launch_mutex_ polls NCCL itself.
  if (std::unique_lock asks(launch_mutex_, std::try_to_lock); asks && error() == nullptr) {
    if (const int code = nccl_.async_error(comm_, &state)) state = code;
  }
  if (state != kSuccess && state != kInProgress) {
    std::string during;
    {
      const std::lock_guard lock(mutex_);
      for (const Queue* const queue : {&launches_, &pending_}) {
        if (!queue->empty()) during = queue->front()->what() + ": ";
      }
    }
    during += fmt::format("group '{}'", name_);
    if (state == kRemoteError) {
      poison_remote(during, state);
    } else {
      poison(ErrorKind::kConnection,
             fmt::format("{}: NCCL says: {}", during, text_of(nccl_, state)), true);
    }
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

void Core::poison_remote(const std::string& during, int code) noexcept {
  const std::string said = fmt::format("{}: NCCL says: {}", during, text_of(nccl_, code));
  const Deadline until = Deadline::after(kNamingTime);
  while (true) {
    hear_host();
    if (error() != nullptr) return;
    if (const std::exception_ptr gone = options_.host->gone_rank()) {
      Cause cause = cause_of(gone);
      cause.text = fmt::format("{}; {}", cause.text, said);
      return poison(cause);
    }
    if (until.has_passed()) break;
    std::this_thread::sleep_for(1ms);
  }
  poison({.kind = ErrorKind::kPeerFailed, .blame = Blame::kGone, .text = said});
}

std::chrono::nanoseconds Core::advance() noexcept {
  bool is_idle = true;
  try {
    // Advance both: an operation may wait for a graph on another stream, and a graph for an
    // operation.
    const bool runs = advance(pending_);
    is_idle = !advance(launches_) && !runs;
  } catch (const std::exception& error) {  // a CUDA call failed: the device is lost
    poison(std::current_exception(), error.what(), true);
  }
  const std::chrono::nanoseconds since = Clock::now() - last_change_;
  if (is_idle) return since < kAlertTime ? kAlertNap : kIdleNap;
  const std::chrono::nanoseconds nap = since / 16;
  return std::clamp(nap, kShortestNap, kLongestNap);
}

bool Core::advance(Queue& queue) {
  while (true) {
    Ref<Operation> front;
    bool is_launched = false;
    {
      const std::lock_guard lock(mutex_);
      if (error() || queue.empty()) return false;
      front = queue.front();
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
      if (error()) return false;
      log_.finish(front->slot_);
      front->end(nullptr);
      queue.pop_front();
      last_change_ = now;
      continue;
    }
    // An operation that waits behind other work of the GPU is not late.
    if (front->started_ || !is_launched) {
      look_at_gone(*front);
      look_at_clock(front);
    }
    return true;
  }
}

// NCCL waits for a rank whose process has ended. The host group knows this, but another rank may
// report the cause, and operations that the rank had begun may still complete.
void Core::look_at_gone(const Operation& front) {
  const std::exception_ptr gone = options_.host->gone_rank();
  if (!gone) return;
  const Clock::time_point now = Clock::now();
  if (gone_since_ == Clock::time_point{}) gone_since_ = now;
  if (now < std::max(gone_since_, front.clock_) + kGoneGrace) return;
  Cause cause = cause_of(gone);
  cause.operation = title(front.descriptor_);
  cause.text = fmt::format("{}: {}", front.what(), cause.text);
  poison(cause);
}

void Core::look_at_clock(const Ref<Operation>& front) {
  const Clock::duration age = Clock::now() - front->clock_;
  const bool is_late = age >= front->timeout_;
  if (!is_late && (front->warned_ || age < options_.warn_after)) return;
  front->warned_ = true;
  const Missing missing = who_is_missing(*front);
  if (options_.host->error() != nullptr) return;  // another rank knows more
  Cause cause{.kind = ErrorKind::kMismatch,
              .blame = missing.blame,
              .rank = missing.rank,
              .operation = title(front->descriptor_),
              .text = missing.text};
  if (missing.blame == Blame::kMismatch) return poison(cause);
  if (is_late) {
    cause.kind = ErrorKind::kTimeout;
    cause.text = fmt::format("{}: not over after {:.3g} s: {}", front->what(),
                             seconds(front->timeout_), missing.text);
    return poison(cause);
  }
  log::warning("{}: waiting for {:.3g} s: {}", front->what(), seconds(age), missing.text);
}

Core::Missing Core::who_is_missing(const Operation& late) {
  if (!options_.notices)
    return {"the missing ranks are unknown: there is no store through which to ask"};
  Notices::Place own;
  {
    const std::lock_guard lock(mutex_);
    own = place_;
  }
  const auto places = options_.notices->ask(
      name_, rank(), size(), own, asked_,
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.answer_patience),
      [this] { return error() != nullptr || options_.host->error() != nullptr; });
  if (!places) return {"the missing ranks are unknown: the store does not answer"};
  const Descriptor& what = late.descriptor_;
  Missing missing;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const std::optional<Notices::Place>& place = (*places)[static_cast<std::size_t>(r)];
    const Identity& peer = ranks_[static_cast<std::size_t>(r)];
    const std::string who = peer.text();
    std::string said;
    bool is_to_blame = true;
    if (!place) {
      said = fmt::format("{} does not answer, it is stopped or gone", who);
    } else if (is_message(what)) {
      said = fmt::format("{}'s last collective was #{}", who, place->last_called);
      is_to_blame = false;
    } else if (place->last_called < what.sequence) {
      said = fmt::format("{} has not called it (its last call was #{})", who, place->last_called);
    } else if (place->last_called == what.sequence && late.in_graph_ == 0 && !place->call.empty() &&
               place->call != text(what)) {
      return {fmt::format("{} has called {}, {} has called {}; do all ranks make the same calls in "
                          "the same order?",
                          who, place->call, ranks_[static_cast<std::size_t>(rank())].text(),
                          text(what)),
              Blame::kMismatch, peer.in_job()};
    }
    if (said.empty()) continue;
    if (is_to_blame && missing.rank < 0) {
      missing.blame = Blame::kMissing;
      missing.rank = peer.in_job();
    }
    missing.text += (missing.text.empty() ? "" : "; ") + said;
  }
  if (missing.text.empty()) {
    missing.text = "all ranks have called it, and a GPU or a link between GPUs is stuck";
  }
  return missing;
}

void Core::call_or_die(std::vector<std::function<void()>> ends, const std::string& why) noexcept {
  if (!are_through(std::move(ends), options_.abort_time)) die(why);
}

void Core::die(const std::string& why) noexcept {
  const std::string text = fmt::format(
      "{}; NCCL has not given the communicator of group '{}' back after {:.3g} s, and this process "
      "ends, as the GPU may still write into its memory",
      why, name_, seconds(options_.abort_time));
  options_.end_process ? options_.end_process(text) : end_this_process(text);
}

// Waits for operations that the program may consider done: launches of graphs, which have no Work
// to wait for, and operations that a stream was ordered after.
bool Core::wait_for_streams() noexcept {
  const auto is_awaited = [](const Ref<Operation>& each) {
    return each->awaited_.load(std::memory_order_relaxed);
  };
  while (true) {
    look();
    advance();  // ends operations that the GPU has finished since the last poll
    std::unique_lock lock(mutex_);
    if (error()) return false;
    if (launches_.empty() && std::ranges::none_of(pending_, is_awaited)) return true;
    changed_.wait_for(lock, kLongestNap);
  }
}

bool Core::leave() noexcept {
  if (!wait_for_streams()) return false;
  Ref<Operation> left;
  {
    const std::lock_guard lock(mutex_);
    if (!pending_.empty()) left = pending_.front();
  }
  if (left) {
    poison(ErrorKind::kAborted,
           fmt::format("{}: {} destroyed group '{}' while it was under way", left->what(),
                       ranks_[static_cast<std::size_t>(rank())].text(), name_),
           true);
    return false;
  }
  // NCCL waits until graphs with its operations are destroyed.
  cuda::destroy_graphs_of(this);
  const Deadline until = Deadline::after(options_.abort_time);
  int state = nccl_.finalize(comm_);
  while (state == kInProgress && !until.has_passed()) {
    std::this_thread::sleep_for(1ms);
    if (const int code = nccl_.async_error(comm_, &state)) state = code;
  }
  const Comm comm = comm_.exchange(nullptr);
  if (state != kSuccess) {
    call_or_die({[&nccl = nccl_, comm] { nccl.abort(comm); }}, "leaving");
  } else if (!are_through({[&nccl = nccl_, comm] { nccl.destroy(comm); }}, kLeaveTime)) {
    // NCCL's proxies serve the other ranks of this host until these leave. This rank's work is
    // done.
    log::debug("group '{}': NCCL keeps its memory until the other ranks have left, too", name_);
  }
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
    cause = error();
    tells = tells_;
    log_.broken(dl::name_of(cause_of(cause).kind), why);
  }
  if (tells && cause_of(cause).blame == Blame::kNone) {
    options_.host->abort(why);
  } else if (tells) {
    options_.host->fail(cause, std::nullopt);
  }
  // A launch under way sees that the group is broken and leaves NCCL alone; later ones do not reach
  // NCCL. Release the lock soon: the end of a graph waits for the thread that launches it, and this
  // thread waits for the lock.
  const Deadline until = Deadline::after(options_.abort_time);
  while (!launch_mutex_.try_lock()) {
    if (until.has_passed()) die(why);
    std::this_thread::sleep_for(1ms);
  }
  launch_mutex_.unlock();
  if (const Comm comm = comm_.exchange(nullptr)) {
    // Both at once: NCCL keeps the communicator until the graphs are destroyed, and on an H200 with
    // NCCL 2.28.3 it did not give it back within 5 s if they were destroyed before the abort.
    call_or_die({[&nccl = nccl_, comm] { nccl.abort(comm); },
                 [owner = static_cast<const void*>(this)] { cuda::destroy_graphs_of(owner); }},
                why);
  }
  Queue over[2];  // dropped after the lock
  const std::lock_guard lock(mutex_);
  over[0].swap(pending_);
  over[1].swap(launches_);
  for (const Queue& queue : over) {
    for (const Ref<Operation>& operation : queue) {
      log_.fail(operation->slot_);
      operation->end(cause);
    }
  }
  is_over_ = true;
}

}  // namespace dl::collectives::nccl
