// Core's functions that break the group: they tell all ranks the cause and end every operation.
#include <algorithm>
#include <utility>

#include "collectives/tcp/core/core.h"
#include "core/base/log/log.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::tcp {
namespace {

using Clock = Engine::Clock;

}  // namespace

std::string Core::call_of(const Cause& cause) const {
  if (cause.blame != Blame::kMismatch || cause.sequence == 0) return {};
  for (const Ref<Collective>& operation : queue_) {
    if (operation->descriptor.sequence == cause.sequence) return call_text(operation->descriptor);
  }
  const Descriptor* const past = find_past(cause.sequence);
  return past == nullptr ? std::string() : call_text(*past);
}

void Core::take_news() {
  for (News& news : std::exchange(heard_, {})) {
    fail(std::move(news.cause), news.told_by, news.spared);
  }
}

void Core::fail(Cause cause, int told_by, std::optional<std::uint64_t> spared) {
  // A cause that peers have reported counts before one that this rank finds later.
  take_news();
  // A spared collective that fails ends with the first cause.
  if (is_poisoned()) return spare_only(spared.value_or(completed_));
  const int self = identity(rank_).in_job();
  if (cause.found_by < 0) cause.found_by = self;
  const std::exception_ptr error = std::make_exception_ptr(GroupError(cause));
  std::string own_call = call_of(cause);
  if (cause.blame != Blame::kNone && reports_failures_) {
    rendezvous::report_peer_failure({.cause = cause, .call = own_call});
  }
  {
    const std::lock_guard lock(error_mutex_);
    error_ = error;
    own_call_ = std::move(own_call);
  }
  spared_until_.store(spared.value_or(completed_));
  poisoned_.store(true, std::memory_order_release);
  tell_news();
  tell_abort(cause, told_by);
  recorder_.broken(dl::name_of(cause.kind), cause.text);
  end_all(error);
}

void Core::tell_abort(const Cause& cause, int told_by) {
  const std::string said = encode(as_told(cause, identity(rank_).in_job()), kMostAbortBytes);
  const auto* const bytes = reinterpret_cast<const std::byte*>(said.data());
  for (Peer& p : peers_) {
    if (!is_other(p)) continue;
    // Frames still in the queue no longer matter. A slice that is partly sent must be finished, or
    // the peer takes the next frame for its bytes; it is sent from a copy, because the caller gets
    // its buffer back.
    p.out.clear();
    if (p.bulk_leaving > 0) {
      const Message& message = *p.messages->cleared()->second;
      const std::byte* const slice = message.buffer + message.moved;
      p.out_payload.assign(slice, slice + std::exchange(p.bulk_leaving, 0));
      p.side->replace_payload(p.out_payload.data());
    }
    p.messages->drop_sends();
    if (p.who.rank == told_by) continue;
    push(p,
         {.type = FrameType::kAbort,
          .descriptor = {.sequence = spared_until_.load(), .root = told_by >= 0 ? told_by : rank_},
          .detail = static_cast<std::uint8_t>(cause.kind)},
         {bytes, bytes + said.size()});
    transmit_side(p);
  }
}

void Core::spare_only(std::uint64_t until) {
  if (is_closed() || until >= spared_until_.load()) return;
  spared_until_.store(std::max(until, completed_.load()));
  const std::exception_ptr first = error();
  if (until <= completed_) tell_abort(cause_of(first), -1);
  end_all(first);
}

void Core::end_all(const std::exception_ptr& error) {
  std::vector<Ref<Operation>> over;
  while (!queue_.empty() && queue_.back()->descriptor.sequence > spared_until_.load()) {
    over.emplace_back(std::move(queue_.back()));
    queue_.pop_back();
  }
  std::ranges::reverse(over);
  for (Ref<Message>& message : messages_) over.emplace_back(std::move(message));
  messages_.clear();
  matching_.clear();
  for (Peer& p : peers_) {
    // Discard the rest of a frame: the caller gets the buffer back.
    if (std::byte* const to = p.messages->drop(p.side ? p.side->payload_left() : 0)) {
      p.incoming_to = to;
    }
  }
  for (const Ref<Operation>& operation : over) operation->end(error);
  const std::lock_guard lock(finished_mutex_);
  for (Ref<Operation>& operation : over) finished_.push_back(std::move(operation));
}

void Core::on_control(Peer& p, const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kProbe:
      push(p, {.type = FrameType::kProbeReply, .descriptor = {.sequence = last_called_}});
      return;
    case FrameType::kProbeReply:
      p.last_called = std::max(p.last_called, header.descriptor.sequence);
      p.last_answer = Clock::now();
      tell_news();
      return;
    case FrameType::kGoodbye:
      p.state = Peer::State::kLeft;
      p.last_called = header.descriptor.sequence;
      p.side->acknowledge_now();
      for (const auto& lane : p.data) lane->acknowledge_now();
      return;
    case FrameType::kAbort: {
      const std::vector<std::byte>& payload = p.messages->payload();
      auto cause =
          rendezvous::decode_cause({reinterpret_cast<const char*>(payload.data()), payload.size()});
      DL_CHECK(cause && cause->blame != Blame::kNone, kInternal,
               "group '{}': {} broke the group, with a cause that cannot be read", name_,
               p.who.text());
      const int root = header.descriptor.root;
      if (heard_.empty()) heard_at_ = Clock::now();
      heard_.push_back({.cause = std::move(*cause),
                        .told_by = root >= 0 && root < size() && root != rank_ ? root : p.who.rank,
                        .spared = header.descriptor.sequence});
      return;
    }
    default:
      throw_error(ErrorKind::kInternal, "group '{}': {} sent a frame of type {} on a side link",
                  name_, p.who.text(), name_of(header.type));
  }
}

void Core::look_at_clocks(Clock::time_point now) {
  timer_ = next_end_look_;
  for (const Ref<Message>& message : messages_) {
    look_at_clock(*message, now);
    if (is_closed()) return;
  }
  for (const Ref<Collective>& operation : queue_) {
    look_at_clock(*operation, now);
    if (is_closed() || queue_.empty()) return;
  }
}

void Core::look_at_clock(Operation& operation, Clock::time_point now) {
  Judgement judgement = judge(operation.waiting, operation.descriptor, now, policy_.warn_after,
                              [&] { return missing(operation); });
  if (judgement.waits_for) recorder_.wait_for(operation.slot, *judgement.waits_for);
  if (judgement.failure) return fail(*std::move(judgement.failure));
  if (judgement.is_to_probe) ask_peers();
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
  timer_ = std::min(timer_, judgement.next);
}

Missing Core::missing(const Operation& operation, Clock::time_point asked) const {
  const Descriptor& d = operation.descriptor;
  if (row_of(d.op).is_message) {
    return missing_for(d, static_cast<const Message&>(operation).peer, others(operation, asked));
  }
  if (!queue_.empty() && queue_.front()->descriptor.sequence < d.sequence) {
    const Collective& front = *queue_.front();
    return missing_behind(front.descriptor, missing(front, asked));
  }
  return missing_in(d, others(operation, asked));
}

std::vector<PeerState> Core::others(const Operation& operation, Clock::time_point asked) const {
  const auto* const collective = row_of(operation.descriptor.op).is_message
                                     ? nullptr
                                     : static_cast<const Collective*>(&operation);
  std::vector<PeerState> others;
  for (const Peer& p : peers_) {
    if (p.who.rank == rank_) continue;
    others.push_back(
        {.who = &p.who,
         .presence = p.state,
         .contact = contact_with(p, operation.waiting.probes),
         .last_called = p.last_called,
         .has_told = p.last_answer >= asked,
         .is_needed = collective != nullptr && collective->execution.needs(p.who.rank)});
  }
  return others;
}

}  // namespace dl::collectives::tcp
