#include "collectives/nccl/core.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "collectives/call/recording.h"
#include "core/base/error.h"
#include "core/base/system/machine/thread.h"
#include "core/device/cuda/graph.h"

namespace dl::collectives::nccl {

// The operations of an NCCL group in a CUDA graph. It tells the group of the graph's launches.
//
// Made when a capture records its first operation; belongs to the graph. The watcher destroys all
// such graphs before the core is destroyed. Thread-safety: graph.h; add() is called with
// Communicator::starting held, before the first launch.
class CapturedCalls final : public cuda::GraphPart {
 public:
  explicit CapturedCalls(Core& core) : core_(core) {}

  void add(const Descriptor& what, std::chrono::nanoseconds timeout) noexcept {
    const bool is_message = row_of(what.op).is_message;
    ++(is_message ? messages_ : collectives_);
    if (!is_message || collectives_ == 0) last_ = what;
    timeout_ = std::max(timeout_, timeout);
  }

  void before_launch(const Stream& stream) override {
    if (collectives_ + messages_ == 0) return;  // the group refused all captured calls
    under_way_ = core_.begin_graph(*this, stream);
  }
  void after_launch(const Stream& stream, const std::exception_ptr& failed) noexcept override {
    if (const Ref<Operation> launched = std::exchange(under_way_, nullptr)) {
      core_.end_graph(launched, stream, failed);
    }
  }

  std::uint64_t collectives() const noexcept { return collectives_; }
  std::uint64_t messages() const noexcept { return messages_; }
  // The last collective; the last message if there is no collective.
  const Descriptor& last() const noexcept { return last_; }
  // The longest timeout of these operations is a launch's timeout.
  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }

 private:
  Core& core_;
  std::uint64_t collectives_ = 0;
  std::uint64_t messages_ = 0;
  Descriptor last_;
  std::chrono::nanoseconds timeout_{};
  Ref<Operation> under_way_;
};

Core::Core(NcclGroupOptions options, std::vector<Identity> ranks, std::string name)
    : options_(std::move(options)),
      nccl_(*options_.module),
      ranks_(std::move(ranks)),
      name_(std::move(name)),
      shared_(make_ref<Shared>(*options_.runtime, options_.device, options_.host,
                               ranks_[static_cast<std::size_t>(options_.host->rank())], name_)),
      comm_({.nccl = nccl_,
             .cuda = *options_.runtime,
             .device = options_.device,
             .group = name_,
             .abort_time = options_.abort_time,
             .end_process = options_.end_process}) {
  if (options_.recorder) {
    log_ = options_.recorder->add_group(
        {.name = name_, .backend = "nccl", .rank = rank(), .size = size()});
  }
}

Core::~Core() {
  close();
}

void Core::connect(const UniqueId& id, Deadline deadline) {
  const auto give_up = [&](ErrorKind kind, const std::string& why) {
    comm_.abort(why);
    options_.host->abort(why);
    throw Error(kind, why);
  };
  int state = comm_.connect(size(), id, rank());
  while (state == kInProgress && comm() != nullptr) {
    if (const std::exception_ptr cause = options_.host->error()) {
      comm_.abort("the group is broken");
      std::rethrow_exception(cause);
    }
    if (deadline.has_passed()) {
      give_up(ErrorKind::kTimeout,
              fmt::format("group '{}': NCCL has not connected the {} ranks by the deadline; "
                          "NCCL_DEBUG=INFO says what it waits for",
                          name_, size()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = comm_.error();
  }
  if (state != kSuccess) {
    give_up(ErrorKind::kConnection, fmt::format("group '{}': NCCL cannot connect the ranks: {}",
                                                name_, text_of(nccl_, state)));
  }
  try {
    watcher_ = make_thread(fmt::format("group '{}'", name_), [this] {
      Watcher(options_, name_, ranks_, log_, *shared_, calls_, comm_).run();
    });
  } catch (const Error& error) {
    give_up(error.kind(), error.what());
  }
}

void Core::close() noexcept {
  if (failure().is_in_child()) {
    retain();  // the watcher and the state of CUDA and NCCL belong to the parent process
    return;
  }
  shared_->bell.stop();
  if (watcher_.joinable()) watcher_.join();
}

void Core::throw_if_broken() {
  try {
    shared_->failure.check();
  } catch (...) {
    if (!failure().is_in_child()) shared_->bell.ring();  // the watcher ends all operations
    throw;
  }
}

void Core::fail(const Cause& cause) noexcept {
  if (failure().is_in_child()) return;
  shared_->failure.set(cause);
  shared_->bell.ring();
}

void Core::abort(std::string_view reason) noexcept {
  fail(cause_of_abort(name_, ranks_[static_cast<std::size_t>(rank())].text(), reason));
}

void Core::fail_in(const Operation& operation) noexcept {
  Cause cause = cause_of(std::current_exception());
  cause.operation = title(operation.descriptor());
  cause.text = fmt::format("{}: {}", operation.text(), cause.text);
  fail(cause);
}

void Core::check(int code, std::string_view call) {
  if (code == kSuccess || code == kInProgress) return;
  const std::string text = fmt::format("group '{}': {}: {}", name_, call, comm_.said(code));
  if (code == kRemoteError) {
    shared_->failure.set_remote(text);
  } else {
    shared_->failure.set({.kind = ErrorKind::kConnection, .text = text});
  }
  throw_if_broken();
}

void Core::settle(Deadline deadline, const Descriptor& what) {
  for (int rounds = 0;; ++rounds) {
    throw_if_broken();
    const int state = comm_.error();
    check(state, "an operation's start");
    if (state == kSuccess) return;
    // Check the deadline last: an operation that NCCL has started is not late, even if this thread
    // was delayed.
    if (deadline.has_passed()) {
      fail(
          cause_in(what, ErrorKind::kTimeout,
                   "NCCL has not started it within its capture by the deadline; call the operation "
                   "once before the capture, which connects the ranks"));
      continue;
    }
    // Only the first operations connect ranks, which takes long.
    rounds < 1000 ? static_cast<void>(::sched_yield())
                  : std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Core::start(const Ref<Operation>& operation, std::uint32_t hash,
                 std::optional<Notices::Place> place) {
  calls_.add({.operation = operation,
              .slot = log_.enqueue(record_of(operation->descriptor(), hash)),
              .since = Deadline::Clock::now()},
             place);
  shared_->bell.ring_if_idle();
}

Ref<Work> Core::launch(Descriptor what, int peer, const CallOptions& call, const Enqueue& enqueue) {
  const profiler::Span span = call_span(what);
  throw_if_broken();
  cuda::Runtime& cuda = shared_->cuda;
  const cuda::CaptureState capture = cuda.capture_state(call.stream.handle);
  DL_CHECK(capture != cuda::CaptureState::kInvalidated, kInvalidArgument,
           "{}: the capture of its stream is broken", name_of(what.op));
  const bool is_captured = capture == cuda::CaptureState::kActive;
  // Null if the capture was not begun by a Graph: then its launches are not watched.
  auto* const captured = static_cast<CapturedCalls*>(
      is_captured ? cuda::note_captured(&comm_, [this] { return make_ref<CapturedCalls>(*this); })
                  : nullptr);
  const Lock launching(comm_.starting);
  throw_if_broken();
  // A captured operation takes no number: it does not run, and other ranks may not have captured
  // theirs. The graph's launches take the numbers.
  const bool is_message = row_of(what.op).is_message;
  std::uint64_t& next = is_message ? next_message_ : next_collective_;
  what.sequence = is_captured ? next : next++;
  const std::chrono::nanoseconds timeout = call.timeout.value_or(options_.timeout);
  const auto work = make_ref<Operation>(
      shared_, what,
      Operation::Options{
          .owner = call.keep_alive, .timeout = timeout, .is_captured = is_captured, .peer = peer});
  work->make_events();
  if (!is_captured) {
    std::optional<Notices::Place> place;
    if (!is_message) place = {.last_called = what.sequence, .call = what};
    start(work, hash(what, 0), place);
  }
  try {
    // An operation has begun when its caller's stream has come to it and earlier operations are
    // over. So one event orders the streams and marks the beginning. A capture has no such event,
    // and a stream waits for the latest recording of an event, so there one event serves both
    // directions.
    void* const called = is_captured ? work->end_event() : work->begin_event();
    cuda.record_event(called, call.stream.handle);
    cuda.wait_event(stream(), called);
    check(nccl_.group_start(), "ncclGroupStart");
    try {
      enqueue(stream());
    } catch (...) {
      nccl_.group_end();  // an open group would collect this thread's calls to any communicator
      throw;
    }
    check(nccl_.group_end(), "ncclGroupEnd");
    // The watcher times running operations, and reports missing ranks.
    settle(is_captured ? Deadline::after(timeout) : Deadline::never(), what);
    cuda.record_event(work->end_event(), stream());
  } catch (const std::exception&) {
    // The stream may contain the operation or a part of it, so the whole group is unusable. A
    // capture has run nothing.
    if (!is_captured) fail_in(*work);
    throw;
  }
  if (captured != nullptr) captured->add(what, timeout);
  work->set_launched();
  return work;
}

Ref<Operation> Core::begin_graph(const CapturedCalls& calls, const Stream& stream) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (failure().is_in_child()) throw_if_broken();
  const Lock launching(comm_.starting);
  throw_if_broken();
  // Number them as if they were called now. So the ranks' numbers agree even if one rank calls
  // without a graph what another rank has captured.
  next_collective_ += calls.collectives();
  next_message_ += calls.messages();
  const bool is_counted = calls.collectives() > 0;
  Descriptor what = calls.last();
  what.sequence = (is_counted ? next_collective_ : next_message_) - 1;
  const auto work =
      make_ref<Operation>(shared_, what,
                          Operation::Options{.timeout = calls.timeout(),
                                             .in_graph = calls.collectives() + calls.messages()});
  work->make_events();
  std::optional<Notices::Place> place;
  if (is_counted) place = {.last_called = what.sequence};
  start(work, 0, place);
  try {
    shared_->cuda.record_event(work->begin_event(), stream.handle);
  } catch (const std::exception&) {
    fail_in(*work);
    throw;
  }
  return work;
}

void Core::end_graph(const Ref<Operation>& launched, const Stream& stream,
                     const std::exception_ptr& failed) noexcept {
  try {
    if (failed) std::rethrow_exception(failed);
    shared_->cuda.record_event(launched->end_event(), stream.handle);
    launched->set_launched();
  } catch (const std::exception&) {
    fail_in(*launched);
  }
}

}  // namespace dl::collectives::nccl
