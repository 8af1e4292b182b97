#include "collectives/shm/core/core.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectives/call/recording.h"
#include "collectives/shm/peers/oversubscribed.h"
#include "collectives/waiting/still_running.h"
#include "core/base/thread.h"

namespace dl::collectives::shm {
namespace {

using namespace std::chrono_literals;

// A waiting driver reads the clock once in this many polls (a few microseconds), or at every poll
// if it yields its core between polls.
constexpr unsigned kLooksAClock = 64;
// Polls before a yield, if ranks share a core: enough to see what peers on other cores have
// written. A rank yields only if it waits for a rank on its own core; otherwise a yield costs two
// thread switches and delays what it sees of its peers.
constexpr unsigned kLooksBeforeYield = 3;
// Polls without progress before sleeping peers are woken with a full fence.
constexpr unsigned kLooksBeforeSettling = 2;
// Polls before the first PAUSE instruction, which takes as long as the answer of a peer that has
// called at the same time.
constexpr unsigned kLooksWithoutPause = 16;
// A rank with a core of its own yields too after this long. On an idle core a yield costs a third
// of a microsecond; on a loaded machine a spinning rank could keep the peer from running for which
// it waits.
constexpr auto kSpinBeforeYield = 20us;
// How often a long wait checks peers and clocks.
constexpr auto kLookTime = 200us;
// Longest nap: bounds the delay of a missed ring (bell.h) and of a deadline.
constexpr auto kLongestNap = 10ms;
// How long a caller sleeps while another thread drives.
constexpr auto kWatchTime = 1ms;
constexpr int kYieldsForRole = 64;
// The progress thread yields early, because the program computes on the same cores.
constexpr WaitPolicy kThreadPolicy{.spin = 20us, .yields = true};

Protocol protocol_of(const Peers& peers) {
  std::vector<std::byte*> segments;
  for (const Peer& p : peers) segments.push_back(p.segment.data());
  return {peers.rank(), segments, slots_in_use(segments.size(), peers.is_oversubscribed())};
}

}  // namespace

Core::Core(Links links, Options options)
    : options_(std::move(options)),
      salt_(hash_of_group(options_.name, options_.generation)),
      peers_(std::move(links), options_.name),
      failure_(peers_, log_, options_.reports_failures),
      protocol_(protocol_of(peers_)),
      matching_(name(), rank(), kCreditBytes),
      lines_(static_cast<std::size_t>(size())),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!event_) throw_errno(errno, "eventfd");
  if (!timer_) throw_errno(errno, "timerfd_create");
  for (const Peer& p : peers_) {
    matching_.add_rank(p.who);
    line(p).messages.emplace(p.who.rank, matching_, kMostMessageBytes);
    parent_only_.add(p.socket.get());
  }
  if (const auto& recorder = options_.recorder) {
    log_ = recorder->add_group({.name = options_.name,
                                .backend = "shm",
                                .generation = options_.generation,
                                .rank = rank(),
                                .size = size()});
    for (const Path path : {Path::kInline, Path::kExchange, Path::kChunks, Path::kDirect}) {
      path_numbers_[static_cast<std::size_t>(path)] = recorder->algorithm(name_of(path));
    }
  }
  parent_only_.add(event_.get());
  parent_only_.add(timer_.get());
  thread_ = make_thread(fmt::format("group '{}'", name()), [this] { run(); });
}

Core::~Core() = default;

void Core::throw_if_broken() const {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

void Core::submit(const Ref<Operation>& operation) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (is_in_child()) throw_if_broken();
  at_exit_.stay_if_leaving();
  Operation& op = *operation;
  const profiler::Span span = call_span(op.descriptor);
  Transfer& transfer = op.transfer;
  transfer.plan =
      make_plan(op.descriptor, transfer.gives.longest(), size(), peers_.is_oversubscribed());
  const bool is_inline = transfer.plan.path == Path::kInline;
  release_finished();
  if (failure_.is_closed()) {
    const std::lock_guard lock(submit_mutex_);
    failure_.refuse(op.descriptor, next_sequence_);
  }
  if (peers_.is_oversubscribed()) note_cpu(peers_.own());
  claim(op);
  const bool drives = take_role();
  try {
    const std::lock_guard lock(submit_mutex_);
    if (failure_.ends(next_sequence_)) failure_.refuse(op.descriptor, next_sequence_);
    if (has_left_) throw_left(op.descriptor);
    op.descriptor.sequence = next_sequence_++;
    transfer.descriptor.sequence = op.descriptor.sequence;
    transfer.hash = hash(op.descriptor, salt_);
    const record::What what = record_of(op.descriptor, transfer.hash);
    // If no operation is under way, skip the queue.
    if (drives && !front_ && queue_.empty()) {
      op.slot = log_.begin(what, recorded_path(op));
      begin(operation);
    } else {
      op.slot = log_.enqueue(what);
      queue_.push_back(operation);
    }
    waiting_.fetch_add(1);
    peers_.own().called.store(op.descriptor.sequence, std::memory_order_release);
  } catch (...) {
    if (drives) give_role_back();
    throw;
  }
  if (drives) {
    step();
    give_role_back();
  }
  // An inline payload is already published: only the caller still has to wait.
  if (op.is_over() || (is_inline && drives && waiting_.load() == 1)) return;
  if (wakes_at_once_.load(std::memory_order_relaxed)) {
    wake_thread();
  } else {
    arm_timer();
  }
}

void Core::wait(Pending& op, std::optional<std::chrono::nanoseconds> limit) {
  const profiler::Span span = wait_span();
  if (is_in_child()) throw_if_broken();
  const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
  bool is_helper = false;
  while (!op.is_over()) {
    if (visitors_.load() == 0 && take_role()) {
      drive(&op, until);
      give_role_back();
    } else {
      if (!std::exchange(is_helper, true)) helpers_.fetch_add(1);
      if (thread_drives_.load()) {
        ring(peers_.own().bell);
        // The progress thread gives the role back after a chunk at most.
        for (int i = 0; i < kYieldsForRole && thread_drives_.load(); ++i) ::sched_yield();
        if (!thread_drives_.load()) continue;
      }
      op.sleep_until(Deadline::earlier(until, Deadline::after(kWatchTime)));
    }
    if (limit && until.has_passed()) break;
  }
  if (is_helper) helpers_.fetch_sub(1);
  if (waiting_.load() > 0) {
    wake_thread();
  } else if (has_messages()) {
    arm_timer();
  } else if (thread_has_moved_.load(std::memory_order_relaxed)) {
    thread_has_moved_.store(false, std::memory_order_relaxed);
  } else {
    wakes_at_once_.store(false, std::memory_order_relaxed);
  }
  release_finished();
  if (op.is_over()) return;
  std::string missing;
  visitors_.fetch_add(1);
  while (!take_role()) {
    ring(peers_.own().bell);
    ::sched_yield();
  }
  if (!op.is_over()) missing = this->missing(op).text;
  visitors_.fetch_sub(1);
  give_role_back();
  // The progress thread may have checked while the role was taken.
  wake_thread();
  if (op.is_over()) return;
  stay_if_exiting();
  throw StillRunning(text(op.descriptor), *limit, missing);
}

void Core::poll() noexcept {
  if (take_role()) {
    step();
    protocol_.bells().settle();
    give_role_back();
  }
  arm_timer();
}

// Sequentially consistent on both sides: either fail()'s try_role sees the role free, or this load
// sees the failure.
void Core::give_role_back() {
  driving_.store(false);
  const auto is_anything_to_end = [this] {
    return failure_.has_to_end() || (failure_.is_closed() && has_operations());
  };
  while (failure_.is_poisoned() && is_anything_to_end() && take_role()) {
    end_all();
    driving_.store(false);
  }
}

void Core::release_finished() {
  if (is_in_child()) return;
  if (!has_finished_.load(std::memory_order_acquire)) return;
  std::vector<Ref<Pending>> over;
  const std::lock_guard lock(finished_mutex_);
  has_finished_.store(false, std::memory_order_relaxed);
  over.swap(finished_);
}

bool Core::drive(const Pending* wanted, Deadline until) {
  const WaitPolicy& policy = wanted != nullptr ? options_.policy : kThreadPolicy;
  Clock::time_point quiet_since{};
  bool is_timed = false;
  bool is_long = false;
  unsigned looks = 0;
  unsigned moves = 0;
  for (;;) {
    const bool has_collectives = wanted == nullptr && waiting_.load() > 0;
    const bool moved = step();
    if (wanted != nullptr ? wanted->is_over() : !has_operations()) break;
    if (wanted == nullptr && (helpers_.load() > 0 || stopping_.load())) break;
    if (moved) {
      if (has_collectives) note_taken_up();
      looks = 0;
      is_timed = false;
      is_long = false;
      // Check the clocks now and then even if one operation always progresses.
      if (++moves % kLooksAClock != 0) continue;
    } else {
      ++looks;
    }
    if (looks == kLooksBeforeSettling) protocol_.bells().settle();
    const bool yields = (policy.yields && looks >= kLooksBeforeYield &&
                         (wanted == nullptr || waits_for_own_cpu())) ||
                        is_long;
    if (!yields && looks % kLooksAClock != 0) {
      if (looks > kLooksWithoutPause) relax();
      continue;
    }
    if (yields) ::sched_yield();
    const Clock::time_point now = Clock::now();
    if (!is_timed) quiet_since = now;
    is_timed = true;
    is_long = now - quiet_since >= kSpinBeforeYield;
    if (now >= next_look_) {
      next_look_ = now + kLookTime;
      look(now);
      if (peers_.is_oversubscribed() && wanted != nullptr) spread(peers_);
    }
    if (until.has_passed(now) || visitors_.load() > 0) break;
    if (now - quiet_since >= policy.spin) {
      sleep(std::min<std::chrono::nanoseconds>(kLongestNap, until.left()));
    }
  }
  protocol_.bells().settle();
  return wanted != nullptr && wanted->is_over();
}

// Callers leave operations to the progress thread, so the next one wakes it at once.
void Core::note_taken_up() noexcept {
  thread_has_moved_.store(true, std::memory_order_relaxed);
  wakes_at_once_.store(true, std::memory_order_relaxed);
}

std::uint8_t Core::recorded_path(const Operation& op) const noexcept {
  // On symmetric memory the ranks still have to agree on the path.
  return op.memory ? std::uint8_t{0}
                   : path_numbers_[static_cast<std::size_t>(op.transfer.plan.path)];
}

void Core::begin(Ref<Operation> op) noexcept {
  front_ = std::move(op);
  protocol_.begin(front_->transfer);
}

bool Core::has_front() {
  if (front_) return true;
  if (waiting_.load() == 0) return false;
  const std::lock_guard lock(submit_mutex_);
  if (queue_.empty()) return false;
  begin(std::move(queue_.front()));
  queue_.pop_front();
  log_.start(front_->slot, recorded_path(*front_));
  return true;
}

bool Core::step() {
  if (failure_.is_poisoned()) {
    const bool closed = failure_.is_closed();
    if (closed || failure_.has_to_end()) end_all();
    if (closed) return false;
  }
  return guarded([this] {
    const bool moved = !failure_.is_poisoned() && has_messages() && advance_messages();
    return (!failure_.has_to_end() && has_front() && advance(*front_)) || moved;
  });
}

bool Core::advance(Operation& op) {
  Transfer& transfer = op.transfer;
  const bool will_choose = op.memory && !protocol_.has_agreed(transfer);
  const Outcome outcome = protocol_.advance(transfer);
  if (will_choose && protocol_.has_agreed(transfer)) {
    log_.start(op.slot, path_numbers_[static_cast<std::size_t>(transfer.plan.path)]);
  }
  if (outcome == Outcome::kDone) finish_front();
  // After another failure, ranks may differ because of it: its cause counts.
  if (outcome == Outcome::kMismatch && !failure_.adopt_peers_cause()) fail_mismatch(op);
  return outcome != Outcome::kNothing;
}

void Core::claim(Operation& op) {
  const std::span<const std::byte> reached = Protocol::begin_claim(op.transfer, size());
  if (reached.empty()) return;
  Memories::Place place = memories_->find(reached.data(), reached.size());
  if (!place.memory) return;
  op.transfer.claim.memory = place.memory->number();
  op.transfer.claim.offset = place.offset;
  op.transfer.memory = place.memory->addresses();
  op.memory = std::move(place.memory);
}

bool Core::waits_for_own_cpu() const noexcept {
  if (!front_) return true;  // the peer of a message may run on any CPU
  const std::int32_t cpu = peers_.own().cpu.load(std::memory_order_relaxed);
  return std::ranges::any_of(peers_, [&](const Peer& p) {
    return p.block->cpu.load(std::memory_order_relaxed) == cpu &&
           protocol_.needs(front_->transfer, p.who.rank);
  });
}

bool Core::sleep(std::chrono::nanoseconds most) {
  bool moved = false;
  protocol_.bells().sleep(most, [&] {
    moved = step();
    return !moved && has_operations();
  });
  return moved;
}

void Core::finish_front() {
  Ref<Operation> over = std::move(front_);
  failure_.note_completed(over->descriptor.sequence);
  waiting_.fetch_sub(1);
  protocol_.fetch_next(over->transfer);
  finish(std::move(over), nullptr);
}

void Core::end(Ref<Operation> op, const std::exception_ptr& error) noexcept {
  if (protocol_.may_be_written(op->transfer)) {
    op->memory->cut_off(op->transfer.claim.offset,
                        op->descriptor.count * size_of(op->descriptor.dtype));
  }
  waiting_.fetch_sub(1);
  finish(std::move(op), error);
}

void Core::finish(Ref<Pending> over, std::exception_ptr error) noexcept {
  const std::uint64_t now = clock_.now();
  error ? log_.fail(over->slot, now) : log_.finish(over->slot, now);
  if (!over->has_owner()) {
    over->end(std::move(error), now);
    return;
  }
  // A thread that sees the operation over will find it in finished_ and release its owner.
  const std::lock_guard lock(finished_mutex_);
  has_finished_.store(true, std::memory_order_release);
  over->end(std::move(error), now);
  finished_.push_back(std::move(over));
}

}  // namespace dl::collectives::shm
