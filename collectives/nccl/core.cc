#include "collectives/nccl/core.h"

#include <sched.h>

#include "collectives/call/recording.h"
#include "collectives/nccl/captured.h"
#include "collectives/process/peer_process.h"
#include "collectives/waiting/still_running.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/thread.h"

namespace dl::collectives::nccl {
namespace {

std::string who_text(const Descriptor& d, std::string_view rest) {
  return fmt::format("{}: {}", text(d), rest);
}

}  // namespace

Operation::Operation(Ref<Core> core, const Descriptor& what, const CallOptions& call,
                     std::chrono::nanoseconds time, bool captured)
    : core_(std::move(core)),
      descriptor_(what),
      timeout_(time),
      captured_(captured),
      owner_(call.keep_alive),
      done_(captured) {}

Operation::~Operation() {
  for (void* const event : {begin_, end_}) {
    if (event == nullptr) continue;
    // The pool must not record an event again that a graph has recorded.
    captured_ ? core_->cuda_.destroy_event(event) : core_->give_event(event);
  }
}

std::string Operation::what() const {
  if (in_graph_ == 0) return text(descriptor_);
  return fmt::format("a graph's launch ({} operation{}, up to {})", in_graph_,
                     in_graph_ == 1 ? "" : "s", text(descriptor_));
}

void Operation::wait(Stream stream) {
  if (stream.device.type == DeviceType::kCPU) return synchronize(std::nullopt);
  if (core_->is_in_child()) core_->throw_if_broken();
  if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
  awaited_.store(true, std::memory_order_relaxed);
  core_->cuda_.wait_event(stream.handle, end_);
}

void Operation::synchronize(std::optional<std::chrono::nanoseconds> timeout) {
  DL_CHECK(!captured_, kInvalidArgument,
           "{}: it is being captured into a graph, and the host cannot wait for it; use "
           "wait(stream)",
           text(descriptor_));
  const profiler::Span span = wait_span();
  if (core_->is_in_child()) core_->throw_if_broken();
  const Deadline until = timeout ? Deadline::after(*timeout) : Deadline::never();
  std::unique_lock lock(core_->mutex_);
  const auto is_over = [this] { return is_completed(); };
  if (!is_over()) {
    core_->host_waits_ = true;
    core_->changed_.notify_all();
  }
  if (!wait_until(over_, lock, until, is_over)) {
    lock.unlock();
    throw StillRunning(text(descriptor_), *timeout, {});
  }
  if (error_) std::rethrow_exception(error_);
}

std::exception_ptr Operation::error() const noexcept {
  if (core_->is_in_child()) return core_->error();
  if (!is_completed()) return nullptr;
  const std::lock_guard lock(core_->mutex_);
  return error_;
}

std::optional<std::chrono::steady_clock::time_point> Operation::completed_at() const noexcept {
  if (!is_completed() || captured_) return std::nullopt;
  const std::lock_guard lock(core_->mutex_);
  return completed_at_;
}

// Under Core::mutex_.
void Operation::end(std::exception_ptr failed) noexcept {
  error_ = std::move(failed);
  completed_at_ = Clock::now();
  owner_ = nullptr;
  done_.store(true, std::memory_order_release);
  over_.notify_all();
}

Core::Core(NcclGroupOptions options, std::vector<Identity> ranks, std::string name)
    : options_(std::move(options)),
      nccl_(*options_.module),
      cuda_(*options_.runtime),
      ranks_(std::move(ranks)),
      name_(std::move(name)) {
  stream_ = cuda_.make_stream(options_.device, true);
  if (options_.recorder) {
    log_ = options_.recorder->add_group(
        {.name = name_, .backend = "nccl", .rank = rank(), .size = size()});
  }
}

Core::~Core() {
  close();
  for (void* const event : events_) cuda_.destroy_event(event);
  if (stream_ != nullptr) cuda_.destroy_stream(stream_);
}

void Core::connect(const UniqueId& id, Deadline deadline) {
  Comm comm = nullptr;
  int state = nccl_.init(&comm, size(), &id, rank(), options_.device);
  const auto give_up = [&](ErrorKind kind, const std::string& why) {
    if (comm != nullptr) call_or_die({[&nccl = nccl_, comm] { nccl.abort(comm); }}, why);
    options_.host->abort(why);
    throw Error(kind, why);
  };
  while (state == kInProgress && comm != nullptr) {
    if (const std::exception_ptr cause = options_.host->error()) {
      call_or_die({[&nccl = nccl_, comm] { nccl.abort(comm); }}, "the group is broken");
      std::rethrow_exception(cause);
    }
    if (deadline.has_passed()) {
      give_up(ErrorKind::kTimeout,
              fmt::format("group '{}': NCCL has not connected the {} ranks by the deadline; "
                          "NCCL_DEBUG=INFO says what it waits for",
                          name_, size()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (const int code = nccl_.async_error(comm, &state)) state = code;
  }
  if (state != kSuccess) {
    give_up(ErrorKind::kConnection, fmt::format("group '{}': NCCL cannot connect the ranks: {}",
                                                name_, text_of(nccl_, state)));
  }
  comm_ = comm;
  try {
    watcher_ = make_thread(fmt::format("group '{}'", name_), [this] { watch(); });
  } catch (const Error& error) {
    comm_ = nullptr;
    give_up(error.kind(), error.what());
  }
}

void Core::close() noexcept {
  if (is_in_child()) {
    retain();  // the watcher and the state of CUDA and NCCL belong to the parent process
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

std::exception_ptr Core::error_in_child() const noexcept {
  return std::make_exception_ptr(
      Error(ErrorKind::kInvalidArgument,
            text_of_forked_child(name_, ranks_[static_cast<std::size_t>(rank())])));
}

void Core::throw_if_broken() {
  if (is_in_child()) std::rethrow_exception(error_in_child());
  hear_host();
  error_->check();
}

void Core::check(int code, std::string_view call) {
  if (code == kSuccess || code == kInProgress) return;
  if (code == kRemoteError) {
    poison_remote(fmt::format("group '{}': {}", name_, call), code);
  } else {
    poison(ErrorKind::kConnection,
           fmt::format("group '{}': {}: NCCL says: {}", name_, call, text_of(nccl_, code)), true);
  }
  throw_if_broken();
}

void Core::settle(Deadline deadline, const Descriptor& what) {
  for (int rounds = 0;; ++rounds) {
    throw_if_broken();
    int state = kSuccess;
    if (const int code = nccl_.async_error(comm_, &state)) state = code;
    check(state, "an operation's start");
    if (state == kSuccess) return;
    // Check the deadline last: an operation that NCCL has started is not late, however long this
    // thread was delayed.
    if (deadline.has_passed()) {
      poison(ErrorKind::kTimeout,
             fmt::format("{}: NCCL has not started it within its capture by the deadline; an "
                         "operation that was called before is connected already",
                         text(what)),
             true);
      continue;
    }
    // Only the first operations connect ranks, which takes long.
    rounds < 1000 ? static_cast<void>(::sched_yield())
                  : std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Under mutex_. Waking a thread costs a caller more than all else that the group adds to a call of
// NCCL (10 us and more in a virtual machine), and a watcher that is not idle looks soon by itself.
void Core::wake_if_idle() noexcept {
  if (is_idle_) changed_.notify_all();
}

void* Core::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      void* const event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  return cuda_.make_event(options_.device, false);
}

void Core::give_event(void* event) noexcept {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

Ref<Work> Core::launch(Descriptor what, const CallOptions& call, const Enqueue& enqueue) {
  const profiler::Span span = call_span(what);
  throw_if_broken();
  const cuda::CaptureState capture = cuda_.capture_state(call.stream.handle);
  DL_CHECK(capture != cuda::CaptureState::kInvalidated, kInvalidArgument,
           "{}: the capture of its stream is broken", name_of(what.op));
  const bool is_captured = capture == cuda::CaptureState::kActive;
  // Null for a capture that was not begun by a Graph: its launches are not watched.
  auto* const captured = static_cast<CapturedCalls*>(
      is_captured ? cuda::note_captured(this, [this] { return make_ref<CapturedCalls>(*this); })
                  : nullptr);
  const std::lock_guard launching(launch_mutex_);
  throw_if_broken();
  // A capture runs nothing, and other ranks may not have captured yet: only launches take numbers.
  std::uint64_t& next = is_message(what) ? next_message_ : next_collective_;
  what.sequence = is_captured ? next : next++;
  const std::chrono::nanoseconds timeout = call.timeout.value_or(options_.timeout);
  const auto work = make_ref<Operation>(Ref<Core>(this), what, call, timeout, is_captured);
  work->end_ = is_captured ? cuda_.make_event(options_.device, false) : take_event();
  if (!is_captured) {
    work->begin_ = take_event();
    work->slot_ = log_.enqueue(record_of(what, hash(what, 0)));
  }
  {
    const std::lock_guard lock(mutex_);
    work->clock_ = Clock::now();
    if (!is_captured) {
      if (!is_message(what)) place_ = {.last_called = what.sequence, .call = text(what)};
      pending_.push_back(work);
      wake_if_idle();
    }
  }
  try {
    // An operation has begun when its caller's stream has come to it and those before it are over,
    // so one event orders the streams and marks the beginning. A capture has no such event; a
    // stream waits for the latest recording of an event, so there one serves both directions.
    void* const called = is_captured ? work->end_ : work->begin_;
    cuda_.record_event(called, call.stream.handle);
    cuda_.wait_event(stream_, called);
    check(nccl_.group_start(), "ncclGroupStart");
    try {
      enqueue(stream_);
    } catch (...) {
      nccl_.group_end();  // an open group would collect this thread's calls to any communicator
      throw;
    }
    check(nccl_.group_end(), "ncclGroupEnd");
    // The watcher times running operations, and reports missing ranks.
    settle(is_captured ? Deadline::after(timeout) : Deadline::never(), what);
    cuda_.record_event(work->end_, stream_);
  } catch (const std::exception& error) {
    // The stream may contain the operation, or a part of it: the whole group is unusable. A capture
    // has run nothing.
    if (!is_captured) poison(std::current_exception(), who_text(what, error.what()), true);
    throw;
  }
  if (captured != nullptr) captured->add(what, timeout);
  const std::lock_guard lock(mutex_);
  work->launched_ = true;
  return work;
}

Ref<Operation> Core::begin_graph(const CapturedCalls& calls, const Stream& stream) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (is_in_child()) throw_if_broken();
  const std::lock_guard launching(launch_mutex_);
  throw_if_broken();
  // Numbers them as if they were called now, so that the ranks' numbers agree even if a rank calls
  // them without a graph.
  next_collective_ += calls.collectives();
  next_message_ += calls.messages();
  const bool is_counted = calls.collectives() > 0;
  Descriptor what = calls.last();
  what.sequence = (is_counted ? next_collective_ : next_message_) - 1;
  auto work = make_ref<Operation>(Ref<Core>(this), what, CallOptions{}, calls.timeout(), false);
  work->in_graph_ = calls.collectives() + calls.messages();
  work->begin_ = take_event();
  work->end_ = take_event();
  work->slot_ = log_.enqueue(record_of(what, 0));
  {
    const std::lock_guard lock(mutex_);
    work->clock_ = Clock::now();
    if (is_counted) place_ = {.last_called = what.sequence};
    launches_.push_back(work);
    wake_if_idle();
  }
  try {
    cuda_.record_event(work->begin_, stream.handle);
  } catch (const std::exception& error) {
    poison(std::current_exception(), fmt::format("{}: {}", work->what(), error.what()), true);
    throw;
  }
  return work;
}

void Core::end_graph(const Ref<Operation>& launched, const Stream& stream,
                     const std::exception_ptr& failed) noexcept {
  try {
    if (failed) std::rethrow_exception(failed);
    cuda_.record_event(launched->end_, stream.handle);
    const std::lock_guard lock(mutex_);
    launched->launched_ = true;
  } catch (const std::exception& error) {
    poison(std::current_exception(), fmt::format("{}: {}", launched->what(), error.what()), true);
  }
}

void Core::poison(ErrorKind kind, const std::string& text, bool tells) noexcept {
  poison(std::make_exception_ptr(Error(kind, text)), text, tells);
}

void Core::poison(std::exception_ptr cause, const std::string& text, bool tells) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  const std::lock_guard lock(mutex_);
  if (error_->get()) return;
  error_->set(std::move(cause));
  error_text_ = text;
  tells_ = tells;
  changed_.notify_all();
}

void Core::poison(const Cause& cause) noexcept {
  poison(std::make_exception_ptr(GroupError(cause)), cause.text, true);
}

void Core::fail(const std::exception_ptr& cause) noexcept {
  poison(cause, cause_of(cause).text, true);
}

void Core::abort(std::string_view reason) noexcept {
  poison(ErrorKind::kAborted,
         fmt::format("group '{}' was aborted by {}: {}", name_,
                     ranks_[static_cast<std::size_t>(rank())].text(), reason),
         true);
}

}  // namespace dl::collectives::nccl
