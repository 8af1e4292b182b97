// Core's functions that find failures, tell all ranks the cause, and end every operation.
#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/process/peer_process.h"
#include "collectives/shm/core/core.h"
#include "core/base/log/log.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::shm {
namespace {

using Clock = Deadline::Clock;

Presence presence_of(const Peer& p) noexcept {
  return p.block->presence.load(std::memory_order_acquire);
}

bool is_message(const Pending& pending) noexcept {
  return row_of(pending.descriptor.op).is_message;
}

}  // namespace

std::exception_ptr Core::first_cause() const noexcept {
  const std::lock_guard lock(error_mutex_);
  return error_;
}

std::exception_ptr Core::error() const noexcept {
  if (is_in_child()) {
    return std::make_exception_ptr(
        Error(ErrorKind::kInvalidArgument, text_of_forked_child(name(), identity(rank_))));
  }
  return is_poisoned() ? first_cause() : nullptr;
}

std::string Core::text_of_gone(const Peer& p) {
  return gone_text(p.who.text(), p.is_socket_held.load(std::memory_order_relaxed)
                                     ? "open, but its process has ended"
                                     : "closed");
}

std::exception_ptr Core::gone_rank() const {
  if (is_in_child()) return nullptr;
  for (const Peer& p : peers_) {
    const bool has_left = presence_of(p) == Presence::kLeft;
    if (has_left || !p.is_gone.load(std::memory_order_acquire)) continue;
    return std::make_exception_ptr(GroupError({.kind = ErrorKind::kPeerFailed,
                                               .blame = Blame::kGone,
                                               .rank = p.who.in_job(),
                                               .found_by = identity(rank_).in_job(),
                                               .text = text_of_gone(p)}));
  }
  return nullptr;
}

std::string Core::call_of(const Cause& cause) const noexcept try {
  if (cause.blame != Blame::kMismatch || cause.sequence == 0) return {};
  const Cell& cell = own().cells[cause.sequence % 2];
  if (!is_of(cell.flag.load(std::memory_order_acquire), cause.sequence)) return {};
  Descriptor called;
  copy_bytes(&called, cell.descriptor, sizeof called);
  return call_text(called);
} catch (...) {
  return {};
}

void Core::refuse(const Descriptor& called) {
  const std::exception_ptr error = first_cause();
  report_late_call(cause_of(error), called, next_sequence_, options_.reports_failures);
  std::rethrow_exception(error);
}

void Core::fail(Cause cause, std::optional<std::uint64_t> given) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  const std::uint64_t spared = given.value_or(completed_.load());
  const int self = identity(rank_).in_job();
  {
    std::unique_lock lock(error_mutex_);
    if (error_) {
      lock.unlock();
      // A spared operation that fails ends with the first cause.
      return spare_only(spared);
    }
    if (cause.found_by < 0) cause.found_by = self;
    error_ = std::make_exception_ptr(GroupError(cause));
    const std::string said = encode(as_told(cause, self), kMostCauseBytes);
    Block& block = own();
    block.cause_bytes = static_cast<std::uint32_t>(said.size());
    std::memcpy(block.cause, said.data(), said.size());
    block.spared.store(spared, std::memory_order_relaxed);
    spared_until_.store(spared);
    block.presence.store(Presence::kFailed, std::memory_order_release);
    log_.broken(name_of(cause.kind), cause.text);
    poisoned_.store(true);
    has_to_end_.store(true);
  }
  if (cause.blame != Blame::kNone && options_.reports_failures) {
    rendezvous::report_peer_failure({.cause = cause, .call = call_of(cause)});
  }
  tell_failed();
}

void Core::spare_only(std::uint64_t until) noexcept {
  {
    const std::lock_guard lock(error_mutex_);
    if (until >= spared_until_.load() || is_closed()) return;
    spared_until_.store(std::max(until, completed_.load()));
    own().spared.store(spared_until_.load(), std::memory_order_release);
    has_to_end_.store(true);
  }
  tell_failed();
}

void Core::tell_failed() noexcept {
  for (Peer& p : peers_) {
    ring(p.block->bell);
    if (p.socket) send_note(p, Note::Kind::kFailed);
  }
  if (take_role()) give_role_back();
}

void Core::end_all() noexcept {
  has_to_end_.store(false);
  const std::exception_ptr cause = first_cause();
  // After an invalid frame this rank reads no more.
  if (!under_way_.empty() && cause_of(cause).kind != ErrorKind::kInternal) take_what_has_come();
  end_messages(cause);
  const auto is_doomed = [this](const Ref<Operation>& op) {
    return op->descriptor.sequence > spared_until_.load();
  };
  if (front_ && is_doomed(front_)) end(std::move(front_), cause);
  for (;;) {
    Ref<Operation> last;
    {
      const std::lock_guard lock(submit_mutex_);
      const auto first = std::ranges::find_if(queue_, is_doomed);
      if (first == queue_.end()) return;
      last = std::move(*first);
      queue_.erase(first);
    }
    end(std::move(last), cause);
  }
}

void Core::abort(std::string_view reason) noexcept {
  fail({.kind = ErrorKind::kAborted,
        .text = fmt::format("group '{}' was aborted by {}: {}", name(), peer(rank_).who.text(),
                            reason)});
}

// Adopts the cause that a peer has found; true if operations are to end now.
bool Core::adopt_peers_cause() noexcept {
  for (const Peer& p : peers_) {
    if (p.who.rank == rank_ || presence_of(p) != Presence::kFailed) continue;
    const Block& block = *p.block;
    const std::uint64_t spared = block.spared.load(std::memory_order_acquire);
    if (is_poisoned()) {
      spare_only(spared);
      continue;
    }
    auto cause = rendezvous::decode_cause(
        {block.cause, std::min<std::size_t>(block.cause_bytes, kMostCauseBytes)});
    if (!cause) {
      cause = Cause{.blame = Blame::kBroke,
                    .rank = p.who.in_job(),
                    .text = fmt::format("group '{}': {} broke the group, with a cause that cannot "
                                        "be read",
                                        name(), p.who.text())};
    }
    fail(std::move(*cause), spared);
  }
  return is_closed() || has_to_end_.load();
}

// Read the sockets first: they may still hold rings that peers passed before one of them failed.
void Core::hear_of_failures() {
  const auto has_failed = [](const Peer& p) { return presence_of(p) == Presence::kFailed; };
  if (is_closed() || std::ranges::none_of(peers_, has_failed)) return;
  if (!is_poisoned()) {
    for (Peer& p : peers_) {
      if (p.socket && !p.is_gone.load(std::memory_order_relaxed)) read_notes(p);
    }
  }
  adopt_peers_cause();
}

void Core::fail_mismatch(const Operation& op) {
  const Mismatch& m = protocol_.mismatch();
  const Identity& them = identity(m.rank);
  const std::string ours = identity(rank_).text();
  fail(cause_about(op.descriptor, ErrorKind::kMismatch,
                   m.is_of_count
                       ? part_mismatch_text(op.descriptor, them.text(), m.sent, ours, m.expected)
                       : mismatch_text(m.called, them.text(), op.descriptor, ours),
                   Blame::kMismatch, them.in_job()));
}

void Core::look(Clock::time_point now) {
  // If there are messages, the progress thread adopts the cause, because it reads the sockets
  // first.
  if (!has_messages()) adopt_peers_cause();
  if (is_closed() || has_to_end_.load()) return;
  look_at_messages(now);
  if (is_closed() || has_to_end_.load() || !front_) return;
  look_at_peers(*front_);
  if (is_closed() || !front_) return;
  look_at_clock(*front_, now);
  if (is_closed()) return;
  const std::lock_guard lock(submit_mutex_);
  for (const Ref<Operation>& op : queue_) {
    look_at_clock(*op, now);
    if (is_closed()) return;
  }
}

Blame Core::blame_of_ended(const Peer& p) noexcept {
  return presence_of(p) == Presence::kLeft ? Blame::kLeft : Blame::kGone;
}

std::string Core::text_of_ended(const Peer& p, const Pending& op) const {
  if (presence_of(p) != Presence::kLeft) return text_of_gone(p);
  const std::uint64_t called = p.block->called.load();
  return text_of_left(p.who.text(), name(), called,
                      !is_message(op) && called >= op.descriptor.sequence);
}

void Core::throw_left(const Descriptor& called) const {
  throw_error(ErrorKind::kAborted, "{}: this rank has left group '{}' by exit()", text(called),
              name());
}

void Core::look_at_peers(Operation& front) {
  for (const Peer& p : peers_) {
    if (p.who.rank == rank_) continue;
    const bool has_left = presence_of(p) == Presence::kLeft;
    if (!has_left && !p.is_gone.load(std::memory_order_acquire)) continue;
    // Data that the peer wrote before it left counts: only what is missing now will never come.
    if (!protocol_.needs(front.transfer, p.who.rank)) continue;
    if (step()) return;
    if (adopt_peers_cause()) return;
    fail(cause_in(front.descriptor, ErrorKind::kPeerFailed, text_of_ended(p, front),
                  blame_of_ended(p), p.who.in_job()));
    return;
  }
}

void Core::look_at_clock(Pending& op, Clock::time_point now) {
  Judgement judgement = judge(op.waiting, op.descriptor, now, options_.policy.warn_after,
                              [&] { return missing(op); });
  if (judgement.waits_for) log_.wait_for(op.slot, *judgement.waits_for);
  if (judgement.failure) return fail(*std::move(judgement.failure));
  if (judgement.is_to_probe) {
    for (Peer& p : peers_) {
      if (p.socket) send_note(p, Note::Kind::kProbe);
    }
  }
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
}

Missing Core::missing(const Pending& pending) const {
  const Descriptor& d = pending.descriptor;
  if (is_message(pending)) {
    return missing_for(d, static_cast<const Message&>(pending).peer, others(pending));
  }
  if (front_ && front_->descriptor.sequence < d.sequence) {
    return missing_behind(front_->descriptor, missing(*front_));
  }
  return missing_in(d, others(pending), {.silent = "stopped?"});
}

std::vector<PeerState> Core::others(const Pending& pending) const {
  const auto* const op = is_message(pending) ? nullptr : static_cast<const Operation*>(&pending);
  const auto presence = [](const Peer& p) {
    if (presence_of(p) == Presence::kLeft) return PeerState::Presence::kLeft;
    return p.is_gone.load(std::memory_order_acquire) ? PeerState::Presence::kGone
                                                     : PeerState::Presence::kHere;
  };
  std::vector<PeerState> others;
  for (const Peer& p : peers_) {
    if (p.who.rank == rank_) continue;
    const bool is_silent = pending.waiting.probes.are_unanswered(p.last_answer);
    others.push_back({.who = &p.who,
                      .presence = presence(p),
                      .contact = is_silent ? Contact::kSilent : Contact::kAnswers,
                      .last_called = p.block->called.load(std::memory_order_acquire),
                      .is_needed = op != nullptr && protocol_.needs(op->transfer, p.who.rank)});
  }
  return others;
}

}  // namespace dl::collectives::shm
