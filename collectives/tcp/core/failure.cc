// Core's functions that break the group: they tell all ranks the cause and end every operation.
#include <algorithm>
#include <utility>

#include "collectives/tcp/core/core.h"
#include "core/base/log/log.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = Engine::Clock;

// When to probe the peers next.
Clock::time_point ask_time(const Operation& operation, Clock::duration warn_after) noexcept {
  return operation.begin +
         std::min<Clock::duration>(operation.probes.next(operation.timeout, warn_after),
                                   Clock::time_point::max() - operation.begin);
}

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
      const Message& message = *p.bulk.front().second;
      const std::byte* const slice = message.buffer + message.moved;
      p.out_payload.assign(slice, slice + std::exchange(p.bulk_leaving, 0));
      p.side->replace_payload(p.out_payload.data());
    }
    p.bulk.clear();
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
    p.unsent.clear();
    p.requested.clear();
    p.receiving.clear();
    if (p.incoming) {
      // Discard the rest of its frame: the caller gets the buffer back.
      p.incoming = nullptr;
      p.incoming_payload.resize(p.side->payload_left());
      p.incoming_to = p.incoming_payload.data();
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
      const auto* const said = reinterpret_cast<const char*>(p.incoming_payload.data());
      auto cause = rendezvous::decode_cause({said, p.incoming_payload.size()});
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

// Deadlines exclude the time in which this process was stopped (SIGSTOP).
void Core::leave_out_stops(Clock::time_point now) {
  const std::chrono::nanoseconds stopped = stopped_time(now);
  const std::chrono::nanoseconds added = stopped - std::exchange(stopped_, stopped);
  if (added == 0ns) return;
  const auto shift = [&](Operation& op) { op.begin = std::min(op.begin + added, now); };
  for (const Ref<Message>& message : messages_) shift(*message);
  for (const Ref<Collective>& operation : queue_) shift(*operation);
}

void Core::look_at_clocks(Clock::time_point now) {
  leave_out_stops(now);
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
  const bool is_slow = operation.timeout > policy_.warn_after;
  if (operation.deadline.has_passed(now)) {
    const int missing = missing_rank(operation);
    recorder_.wait_for(operation.slot, missing);
    Cause cause = cause_in(operation.descriptor, ErrorKind::kTimeout,
                           fmt::format("timed out after {} s {}", seconds_text(operation.timeout),
                                       missing_text(operation)));
    if (missing >= 0) {
      const bool is_here = peer(missing).state == Peer::State::kHere;
      cause.blame = is_here ? Blame::kMissing : Blame::kLeft;
      cause.rank = identity(missing).in_job();
    }
    fail(std::move(cause));
    return;
  }
  if (operation.probes.are_due(operation.begin, now, operation.timeout, policy_.warn_after)) {
    ask_peers();
  }
  if (is_slow && !operation.has_warned && now >= operation.begin + policy_.warn_after) {
    operation.has_warned = true;
    recorder_.wait_for(operation.slot, missing_rank(operation));
    if (!is_behind(operation)) {  // otherwise the first operation in the queue warns
      log::warning("{}", with_operation(operation.descriptor,
                                        fmt::format("{} s {}", seconds_text(policy_.warn_after),
                                                    missing_text(operation))));
    }
  }
  timer_ = std::min(timer_, operation.deadline.when());
  timer_ = std::min(timer_, ask_time(operation, policy_.warn_after));
  if (is_slow && !operation.has_warned)
    timer_ = std::min(timer_, operation.begin + policy_.warn_after);
}

int Core::missing_rank(const Operation& operation) const {
  const Descriptor& d = operation.descriptor;
  if (d.op == OpKind::kSend || d.op == OpKind::kRecv) {
    const int peer = static_cast<const Message&>(operation).peer;
    if (peer != kAnySource) return peer;
    // The message may have been due from a rank that has left.
    const std::vector<Identity> gone = departed();
    return gone.empty() ? -1 : gone.front().rank;
  }
  if (is_behind(operation)) {
    return missing_rank(*queue_.front());
  }
  const auto first = [&](const auto& is_missing) {
    const auto found = std::find_if(peers_.begin(), peers_.end(),
                                    [&](const Peer& p) { return is_other(p) && is_missing(p); });
    return found == peers_.end() ? -1 : found->who.rank;
  };
  // Blame a silent rank first: a stopped rank cannot say whether it has called the operation.
  int rank =
      first([&](const Peer& p) { return contact_with(p, operation.probes) == Contact::kSilent; });
  if (rank < 0) rank = first([&](const Peer& p) { return p.last_called < d.sequence; });
  if (rank >= 0) return rank;
  const auto& running = static_cast<const Collective&>(operation);
  return first([&](const Peer& p) { return running.needs(p.who.rank); });
}

std::string Core::missing_text(const Operation& operation, Clock::time_point asked) const {
  const Descriptor& d = operation.descriptor;
  const auto contact = [&](const Peer& p) { return contact_with(p, operation.probes); };
  if (d.op == OpKind::kSend || d.op == OpKind::kRecv) {
    const auto& message = static_cast<const Message&>(operation);
    if (message.peer == kAnySource) return missing_sender_text(d, departed());
    const Peer& p = peers_[static_cast<std::size_t>(message.peer)];
    return missing_message_text(d, p.who.text(), contact(p) == Contact::kSilent);
  }
  if (is_behind(operation)) {
    const Collective& first = *queue_.front();
    return fmt::format("behind {}, which is {}", text(first.descriptor),
                       missing_text(first, asked));
  }
  std::string missing;
  const auto add = [&](const Peer& p, std::string_view why) {
    missing += fmt::format("{}{}, {}", missing.empty() ? "" : "; ", p.who.text(), why);
  };
  for (const Peer& p : peers_) {
    if (!is_other(p) || p.last_called >= d.sequence) continue;
    switch (contact(p)) {
      case Contact::kSilent:
        add(p, "which does not answer (stopped, or its host cannot be reached)");
        break;
      case Contact::kSlow:
        add(p, "which has not answered yet, as the line to it is slow");
        break;
      case Contact::kAnswers:
        if (p.last_answer < asked) break;
        add(p, p.last_called == 0
                   ? std::string("which has not called it, nor anything before it")
                   : fmt::format("which has not called it (its last call was #{})", p.last_called));
        break;
    }
  }
  if (missing.empty()) {
    for (const Peer& p : peers_) {
      if (is_other(p) && contact(p) == Contact::kSilent) {
        add(p, "which has called it and does not answer any more (stopped?)");
      }
    }
  }
  if (missing.empty()) {
    for (const Peer& p : peers_) {
      if (is_other(p) && p.last_called < d.sequence && p.last_answer < asked) {
        add(p, "which has not answered yet whether it has called it");
      }
    }
  }
  if (missing.empty()) {
    // All ranks answer. Name slow ranks only now, because a rank that waits for a silent one is
    // slow too.
    const auto& running = static_cast<const Collective&>(operation);
    for (const Peer& p : peers_) {
      if (is_other(p) && running.needs(p.who.rank)) {
        add(p, "which has called it and is slow to send or to receive its data");
      }
    }
  }
  return missing.empty() ? "waiting for its own data to leave" : "waiting for " + missing;
}

bool Core::is_behind(const Operation& operation) const noexcept {
  const Descriptor& d = operation.descriptor;
  return d.op != OpKind::kSend && d.op != OpKind::kRecv && !queue_.empty() &&
         queue_.front()->descriptor.sequence < d.sequence;
}

std::vector<Identity> Core::departed() const {
  std::vector<Identity> departed;
  for (const Peer& p : peers_) {
    if (is_other(p) && p.state != Peer::State::kHere) departed.push_back(p.who);
  }
  return departed;
}

}  // namespace dl::collectives::tcp
