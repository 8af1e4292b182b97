#include "collectives/shm/driver/driver.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "collectives/shm/peers/oversubscribed.h"

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
// of a microsecond; on a loaded machine a spinning rank could keep the peer that it waits for from
// running.
constexpr auto kSpinBeforeYield = 20us;
// How often a long wait checks peers and clocks.
constexpr auto kLookTime = 200us;
// Longest nap: bounds the delay of a missed ring (bell.h) and of a deadline.
constexpr auto kLongestNap = 10ms;
// The progress thread yields early, because the program computes on the same cores.
constexpr WaitPolicy kThreadPolicy{.spin = 20us, .yields = true};

std::vector<std::byte*> segments_of(const Peers& peers) {
  std::vector<std::byte*> segments;
  for (const Peer& p : peers) segments.push_back(p.segment.data());
  return segments;
}

}  // namespace

Driver::Driver(Peers& peers, Failure& failure, Records& records, Queue& queue,
               const Callers& callers, Wakeup& wakeup, const WaitPolicy& policy)
    : peers_(peers),
      failure_(failure),
      records_(records),
      queue_(queue),
      callers_(callers),
      wakeup_(wakeup),
      policy_(policy),
      protocol_(peers.rank(), segments_of(peers),
                slots_in_use(static_cast<std::size_t>(peers.size()), peers.is_oversubscribed())),
      messages_(peers, failure, queue, records, protocol_.bells()) {}

bool Driver::drive(const Pending* wanted, Deadline until) {
  const WaitPolicy& policy = wanted != nullptr ? policy_ : kThreadPolicy;
  Clock::time_point quiet_since{};
  bool is_timed = false;
  bool is_long = false;
  unsigned looks = 0;
  unsigned moves = 0;
  for (;;) {
    const bool has_collectives = wanted == nullptr && queue_.has_collectives();
    const bool moved = step();
    if (wanted != nullptr ? wanted->is_over() : !queue_.has_operations()) break;
    if (wanted == nullptr && (callers_.helpers.load() > 0 || callers_.is_stopping.load())) break;
    if (moved) {
      if (has_collectives) wakeup_.note_taken_up();
      looks = 0;
      is_timed = false;
      is_long = false;
      // Check the clocks now and then even if one operation always progresses.
      if (++moves % kLooksAClock != 0) continue;
    } else {
      ++looks;
    }
    if (looks == kLooksBeforeSettling) settle();
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
    if (until.has_passed(now) || callers_.visitors.load() > 0) break;
    if (now - quiet_since >= policy.spin) {
      sleep(std::min<std::chrono::nanoseconds>(kLongestNap, until.left()));
    }
  }
  settle();
  return wanted != nullptr && wanted->is_over();
}

bool Driver::step() {
  if (failure_.is_broken()) {
    const bool closed = failure_.is_closed();
    if (closed || failure_.has_to_end()) end_all();
    if (closed) return false;
  }
  return failure_.guard([this] {
    const bool moved = !failure_.is_broken() && queue_.has_messages() && messages_.advance();
    return (!failure_.has_to_end() && has_front() && advance_front()) || moved;
  });
}

bool Driver::sleep(std::chrono::nanoseconds most) {
  bool moved = false;
  protocol_.bells().sleep(most, [&] {
    moved = step();
    return !moved && queue_.has_operations();
  });
  return moved;
}

bool Driver::waits_for_own_cpu() const noexcept {
  if (!front_) return true;  // the peer of a message may run on any CPU
  const std::int32_t cpu = peers_.own().cpu.load(std::memory_order_relaxed);
  return std::ranges::any_of(peers_, [&](const Peer& p) {
    return p.block->cpu.load(std::memory_order_relaxed) == cpu &&
           protocol_.needs(front_->transfer, p.who.rank);
  });
}

void Driver::begin(Ref<Operation> op) noexcept {
  front_ = std::move(op);
  protocol_.begin(front_->transfer);
}

bool Driver::has_front() {
  if (front_) return true;
  if (!queue_.has_collectives()) return false;
  Ref<Operation> next = queue_.take();
  if (!next) return false;
  begin(std::move(next));
  records_.log().start(front_->slot, records_.first_path(*front_));
  return true;
}

bool Driver::advance_front() {
  Operation& op = *front_;
  const bool will_choose = op.memory && !protocol_.has_agreed(op.transfer);
  const Outcome outcome = protocol_.advance(op.transfer);
  if (outcome == Outcome::kNothing) return false;
  if (will_choose && protocol_.has_agreed(op.transfer)) {
    records_.log().start(op.slot, records_.path(op));
  }
  if (outcome == Outcome::kDone) finish_front();
  // After another failure, ranks may differ because of it: its cause counts.
  if (outcome == Outcome::kMismatch && !failure_.adopt_peers_cause()) {
    failure_.fail(cause_of_mismatch(op));
  }
  return true;
}

Cause Driver::cause_of_mismatch(const Operation& op) const {
  const Mismatch& m = protocol_.mismatch();
  const Identity& them = peers_[m.rank].who;
  const std::string ours = peers_.self().text();
  return cause_about(op.descriptor, ErrorKind::kMismatch,
                     m.is_of_count
                         ? part_mismatch_text(op.descriptor, them.text(), m.sent, ours, m.expected)
                         : mismatch_text(m.called, them.text(), op.descriptor, ours),
                     Blame::kMismatch, them.in_job());
}

void Driver::finish_front() {
  Ref<Operation> over = std::move(front_);
  failure_.note_completed(over->descriptor.sequence);
  queue_.note_collective_over();
  protocol_.fetch_next(over->transfer);
  records_.end(std::move(over), nullptr);
}

void Driver::end(Ref<Operation> op, const std::exception_ptr& error) noexcept {
  if (protocol_.may_be_written(op->transfer)) {
    // These writes must not arrive.
    op->memory->cut_off(op->transfer.claim.offset,
                        op->descriptor.count * size_of(op->descriptor.dtype));
  }
  queue_.note_collective_over();
  records_.end(std::move(op), error);
}

void Driver::end_all() noexcept {
  failure_.begin_ending();
  const std::exception_ptr cause = failure_.error();
  messages_.end_all(cause);
  if (front_ && failure_.ends(front_->descriptor.sequence)) end(std::move(front_), cause);
  while (Ref<Operation> next = queue_.take_ended()) end(std::move(next), cause);
}

}  // namespace dl::collectives::shm
