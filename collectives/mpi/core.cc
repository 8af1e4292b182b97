#include "collectives/mpi/core.h"

#include <sched.h>

#include <algorithm>

#include "collectives/call/checks.h"
#include "collectives/call/recording.h"
#include "collectives/process/peer_process.h"
#include "collectives/waiting/still_running.h"

namespace dl::collectives::mpi {
namespace {

using namespace std::chrono_literals;

// A send up to this size completes without its receive; also the credit for such sends to a peer.
constexpr std::size_t kCreditBytes = 1024 * 1024;
// After a failure: time for telling the cause to the other ranks.
constexpr auto kLastWords = 50ms;
constexpr auto kLeaveTime = 1s;

}  // namespace

Operation::Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
    : PendingWork("mpi", call, time), core_(std::move(core)) {
  waiting.begin(Deadline::Clock::now());
}

Operation::~Operation() = default;

void Operation::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  if (!is_completed()) core_->wait(*this, limit);
  if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
}

Core::Core(Engine& engine, Handle comm, std::vector<Identity> ranks, int rank, Options options)
    : engine_(engine),
      mpi_(engine.mpi()),
      comm_(comm),
      rank_(rank),
      options_(std::move(options)),
      peers_(ranks.size()),
      matching_(name(), rank_, 0) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    matching_.add_rank(ranks[i]);
    peers_[i].who = std::move(ranks[i]);
    peers_[i].credit = kCreditBytes;
  }
  if (options_.recorder) {
    log_ = options_.recorder->add_group(
        {.name = options_.name, .backend = "mpi", .rank = rank_, .size = size()});
  }
}

std::exception_ptr Core::error() const noexcept {
  if (is_in_child()) {
    return std::make_exception_ptr(
        Error(ErrorKind::kInvalidArgument,
              text_of_forked_child(name(), peers_[static_cast<std::size_t>(rank_)].who)));
  }
  if (!is_poisoned()) return nullptr;
  const std::lock_guard lock(error_mutex_);
  return error_;
}

void Core::throw_if_broken() const {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

void Core::submit(const Ref<Operation>& operation) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (is_in_child()) throw_if_broken();
  const profiler::Span span = call_span(operation->descriptor);
  std::vector<Ref<Operation>> over;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  over.swap(finished_);
  throw_if_broken();
  Descriptor& d = operation->descriptor;
  if (operation->is_message()) {
    const Ref<Message> message(static_cast<Message*>(operation.get()));
    d.sequence = next_message_++;
    operation->slot = log_.begin(record_of(d, 0, message->peer));
    guarded([&] { d.op == OpKind::kSend ? start_send(message) : start_receive(message); });
  } else {
    d.sequence = next_collective_++;
    peer(rank_).last_called = d.sequence;
    operation->slot = log_.enqueue(record_of(d, hash(d, 0)));
    queue_.emplace_back(static_cast<Collective*>(operation.get()));
    guarded([&] {
      if (queue_.size() == 1) announce(*queue_.front());
    });
  }
  if (is_poisoned() && !operation->is_completed()) {
    // It failed at its start, before it was added to a list.
    if (!operation->requests.empty()) engine_.hold(operation);
    log_.fail(operation->slot);
    operation->end(error());
    return;
  }
  timer_ = Clock::time_point::min();
  if (wakes_at_once_.load(std::memory_order_relaxed)) engine_.wake();
}

void Core::wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit) {
  const profiler::Span span = wait_span();
  if (is_in_child()) throw_if_broken();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  waiters_.fetch_add(1);
  wakes_at_once_.store(false, std::memory_order_relaxed);
  Clock::time_point last_move = Clock::now();
  std::string missing;
  while (!operation.is_completed()) {
    bool moved = false;
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock) {
      moved = step();
      if (!operation.is_completed() && until.has_passed()) {
        missing = this->missing(operation).text;
        break;
      }
    }
    const Clock::time_point now = Clock::now();
    if (moved) {
      last_move = now;
    } else if (now - last_move > options_.policy.spin) {
      // The longer the wait takes, the less a nap matters.
      operation.sleep_until(
          Deadline::at(now + std::clamp<Clock::duration>((now - last_move) / 16, 20us, 500us)));
    } else if (options_.policy.yields) {
      ::sched_yield();
    }
  }
  waiters_.fetch_sub(1);
  std::vector<Ref<Operation>> over;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  over.swap(finished_);
  if (!missing.empty()) {
    throw StillRunning(text(operation.descriptor), *limit, missing);
  }
  if (!is_poisoned()) return;
  const Deadline last_words = Deadline::after(kLastWords);
  while (!outgoing_.empty() && !last_words.has_passed()) guarded([&] { advance_outgoing(); });
}

Core::Polled Core::poll() noexcept {
  if (waiters_.load() > 0) return Polled::kIdle;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return Polled::kBusy;
  const bool was_busy = has_operations();
  const bool moved = step();
  if (was_busy && moved) wakes_at_once_.store(true, std::memory_order_relaxed);
  if (is_leaving_ && close()) return Polled::kOver;
  if (moved) return Polled::kMoved;
  return has_operations() || !outgoing_.empty() ? Polled::kBusy : Polled::kIdle;
}

void Core::abort(std::string_view reason) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  const std::lock_guard lock(mutex_);
  guarded([&] {
    fail({.kind = ErrorKind::kAborted,
          .text = fmt::format("group '{}' was aborted by {}: {}", name(), peer(rank_).who.text(),
                              reason)});
  });
}

void Core::leave() noexcept {
  if (is_in_child()) {
    retain();  // leaves the parent's MPI state as it is
    return;
  }
  std::vector<Ref<Operation>> over;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  over.swap(finished_);
  if (is_leaving_) return;
  guarded([&] {
    if (has_operations()) {
      const Operation& under_way =
          queue_.empty() ? static_cast<Operation&>(*messages_.front()) : *queue_.front();
      fail(cause_in(under_way.descriptor, ErrorKind::kAborted,
                    fmt::format("{} destroyed group '{}' while it was under way",
                                peer(rank_).who.text(), name())));
      over.insert(over.end(), finished_.begin(), finished_.end());
      finished_.clear();
    }
    Control bye{};
    bye.kind = Control::Kind::kBye;
    bye.last_called = peer(rank_).last_called;
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) tell(r, bye);
    }
  });
  is_leaving_ = true;
  leave_by_ = Clock::now() + kLeaveTime;
  engine_.wake();
}

bool Core::close() {
  const bool is_late = is_poisoned() && Clock::now() >= leave_by_;
  const auto has_left = [this](const Peer& p) { return p.has_left || p.who.rank == rank_; };
  // Messages for this rank must not arrive after it has left: wait until the others have left too.
  if (!is_late && (!outgoing_.empty() || !std::ranges::all_of(peers_, has_left))) return false;
  if (!outgoing_.empty() || (is_poisoned() && engine_.is_holding())) {
    // MPI keeps the buffers of messages that no rank receives any more
    engine_.hold(Ref<RefCounted>(this));
    return true;
  }
  for (Handle* const request : {&control_request_, &header_request_}) {
    Ended ended{};
    mpi_.cancel(*request);
    while (mpi_.test(request, &ended) == 0 && !ended.is_ended) ::sched_yield();
  }
  // All ranks have left, or the group is broken: MPI_Comm_free does not block then (MPI 3.1,
  // 6.4.3).
  mpi_.free(comm_);
  return true;
}

bool Core::step() {
  bool moved = false;
  guarded([&] {
    if (!has_receives_) {
      engine_.check(mpi_.receive(&control_, sizeof control_, kAnySource, kControlTag, comm_,
                                 &control_request_),
                    "MPI_Irecv");
      engine_.check(
          mpi_.receive(&header_, sizeof header_, kAnySource, kHeaderTag, comm_, &header_request_),
          "MPI_Irecv");
      has_receives_ = true;
    }
    // A running collective comes first: the rest may wait a few rounds.
    if (queue_.empty() || rounds_++ % 16 == 0) {
      moved |= advance_outgoing();
      while (read_control()) moved = true;
      look_at_leavers();
    }
    if (!is_poisoned() && !messages_.empty()) moved |= advance_messages();
    while (!is_poisoned() && !queue_.empty() && advance_front()) moved = true;
    if (!is_poisoned() && has_operations()) {
      if (const Clock::time_point now = Clock::now(); now >= timer_) look_at_clocks(now);
    }
  });
  return moved;
}

void Core::finish(const Ref<Operation>& operation) {
  log_.finish(operation->slot);
  operation->end(nullptr);
  finished_.push_back(operation);
}

bool Core::have_ended(std::vector<Handle>& requests) {
  while (!requests.empty()) {
    Ended ended{};
    engine_.check(mpi_.test(&requests.back(), &ended), fmt::format("group '{}'", name()));
    if (!ended.is_ended) return false;
    requests.pop_back();
  }
  return true;
}

void Core::send_parts(std::vector<Handle>& requests, const void* from, std::size_t bytes, int to,
                      int tag, bool is_matched) {
  const auto* data = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kMostBytes);
    Handle request = 0;
    engine_.check(
        (is_matched ? mpi_.send_matched : mpi_.send)(data, part, to, tag, comm_, &request),
        "MPI_Isend");
    requests.push_back(request);
    data += part;
    bytes -= part;
  }
}

void Core::receive_parts(std::vector<Handle>& requests, void* to, std::size_t bytes, int from,
                         int tag) {
  auto* data = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kMostBytes);
    Handle request = 0;
    engine_.check(mpi_.receive(data, part, from, tag, comm_, &request), "MPI_Irecv");
    requests.push_back(request);
    data += part;
    bytes -= part;
  }
}

}  // namespace dl::collectives::mpi
