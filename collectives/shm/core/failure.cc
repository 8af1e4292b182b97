// Core's functions that find failures, tell all ranks the cause, and end every operation.
#include <algorithm>
#include <utility>

#include "collectives/process/peer_process.h"
#include "collectives/shm/core/core.h"
#include "core/base/log/log.h"

namespace dl::collectives::shm {
std::exception_ptr Core::error() const noexcept {
  if (is_in_child()) {
    return std::make_exception_ptr(
        Error(ErrorKind::kInvalidArgument, text_of_forked_child(name(), peers_.self())));
  }
  return failure_.cause();
}

std::exception_ptr Core::gone_rank() const {
  if (is_in_child()) return nullptr;
  const std::optional<Cause> cause = peers_.cause_of_gone();
  return cause ? std::make_exception_ptr(GroupError(*cause)) : nullptr;
}

void Core::fail(Cause cause, std::optional<std::uint64_t> spared) noexcept {
  if (is_in_child()) return;  // a forked child does not speak for the rank
  failure_.fail(std::move(cause), spared);
  if (take_role()) give_role_back();
}

void Core::fail_if(std::optional<Cause> found) noexcept {
  if (found) fail(*std::move(found));
}

void Core::end_all() noexcept {
  failure_.begin_ending();
  const std::exception_ptr cause = failure_.cause();
  // After an invalid frame this rank reads no more.
  if (!under_way_.empty() && cause_of(cause).kind != ErrorKind::kInternal) take_what_has_come();
  end_messages(cause);
  const auto is_doomed = [this](const Ref<Operation>& op) {
    return failure_.ends(op->descriptor.sequence);
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
        .text = fmt::format("group '{}' was aborted by {}: {}", name(), peers_[rank()].who.text(),
                            reason)});
}

// Read the sockets first: they may still hold rings that peers passed before one of them failed.
void Core::hear_of_failures() {
  if (failure_.is_closed() || !failure_.has_peer_failed()) return;
  if (!failure_.is_poisoned()) {
    for (Peer& p : peers_) {
      if (p.socket && !p.is_gone.load(std::memory_order_relaxed)) fail_if(peers_.read_notes(p));
    }
  }
  failure_.adopt_peers_cause();
  if (take_role()) give_role_back();
}

void Core::fail_mismatch(const Operation& op) {
  const Mismatch& m = protocol_.mismatch();
  const Identity& them = identity(m.rank);
  const std::string ours = peers_.self().text();
  fail(cause_about(op.descriptor, ErrorKind::kMismatch,
                   m.is_of_count
                       ? part_mismatch_text(op.descriptor, them.text(), m.sent, ours, m.expected)
                       : mismatch_text(m.called, them.text(), op.descriptor, ours),
                   Blame::kMismatch, them.in_job()));
}

void Core::look(Clock::time_point now) {
  // If there are messages, the progress thread adopts the cause, because it reads the sockets
  // first.
  if (!has_messages()) failure_.adopt_peers_cause();
  if (failure_.stops()) return;
  look_at_messages(now);
  if (failure_.stops() || !front_) return;
  look_at_peers(*front_);
  if (failure_.is_closed() || !front_) return;
  look_at_clock(*front_, now);
  if (failure_.is_closed()) return;
  const std::lock_guard lock(submit_mutex_);
  for (const Ref<Operation>& op : queue_) {
    look_at_clock(*op, now);
    if (failure_.is_closed()) return;
  }
}

void Core::throw_left(const Descriptor& called) const {
  throw_error(ErrorKind::kAborted, "{}: this rank has left group '{}' by exit()", text(called),
              name());
}

void Core::look_at_peers(Operation& front) {
  for (const Peer& p : peers_) {
    if (p.who.rank == rank()) continue;
    if (!p.has_left() && !p.is_gone.load(std::memory_order_acquire)) continue;
    // Data that the peer wrote before it left counts: only what is missing now will never come.
    if (!protocol_.needs(front.transfer, p.who.rank)) continue;
    if (step()) return;
    if (failure_.adopt_peers_cause()) return;
    fail(peers_.cause_of_end(p, front.descriptor));
    return;
  }
}

void Core::look_at_clock(Pending& op, Clock::time_point now) {
  Judgement judgement = judge(op.waiting, op.descriptor, now, options_.policy.warn_after,
                              [&] { return missing(op); });
  if (judgement.waits_for) log_.wait_for(op.slot, *judgement.waits_for);
  if (judgement.failure) return fail(*std::move(judgement.failure));
  if (judgement.is_to_probe) peers_.send_notes(Note::Kind::kProbe);
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
}

Missing Core::missing(const Pending& pending) const {
  const Descriptor& d = pending.descriptor;
  if (row_of(d.op).is_message) {
    return missing_for(d, static_cast<const Message&>(pending).peer,
                       peers_.others(pending.waiting.probes, [](int) { return false; }));
  }
  if (front_ && front_->descriptor.sequence < d.sequence) {
    return missing_behind(front_->descriptor, missing(*front_));
  }
  const Transfer& transfer = static_cast<const Operation&>(pending).transfer;
  return missing_in(d,
                    peers_.others(pending.waiting.probes,
                                  [&](int rank) { return protocol_.needs(transfer, rank); }),
                    {.silent = "stopped?"});
}

}  // namespace dl::collectives::shm
