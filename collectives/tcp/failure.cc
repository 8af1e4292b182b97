// Core's half that finds out what went wrong, says it to everybody, and never lets a call hang.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "collectives/tcp/core.h"
#include "core/base/log.h"
#include "rendezvous/net/lifeline.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = Engine::Clock;

// How long a rank whose links have ended may still be explained by somebody who knows more (its own
// last words, a mismatch elsewhere), before "it is gone" is the cause.
constexpr auto kGoneGrace = 300ms;
constexpr auto kSilenceLook = 1s;
constexpr auto kProcessLook = 200ms;

// When the peers are to be asked next whether they are there.
Clock::time_point ask_time(const Operation& operation, Clock::duration speak_after) noexcept {
  return operation.begin +
         std::min<Clock::duration>(operation.questions.next(operation.timeout, speak_after),
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

void Core::fail(Cause cause, int told_by) {
  if (is_poisoned()) return;
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
  poisoned_.store(true, std::memory_order_release);
  tell_news();
  const std::string said = encode(as_told(cause, self), kMostAbortBytes);
  const auto* const bytes = reinterpret_cast<const std::byte*>(said.data());
  for (Peer& p : peers_) {
    if (!is_other(p)) continue;
    // Nothing that waited to be said matters now. But a slice under way must end, or what follows
    // would be taken for its bytes; as its buffer is the caller's again, a copy goes on.
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
          .descriptor = {.root = told_by >= 0 ? told_by : rank_},
          .detail = static_cast<std::uint8_t>(cause.kind)},
         {bytes, bytes + said.size()});
    transmit_side(p);
  }
  recorder_.broken(dl::name_of(cause.kind), cause.text);
  end_all(error);
}

void Core::end_all(const std::exception_ptr& error) {
  std::vector<Ref<Operation>> over;
  for (Ref<Collective>& operation : queue_) over.emplace_back(std::move(operation));
  for (Ref<Message>& message : messages_) over.emplace_back(std::move(message));
  queue_.clear();
  messages_.clear();
  matching_.clear();
  for (Peer& p : peers_) {
    p.unsent.clear();
    p.requested.clear();
    p.receiving.clear();
    if (p.incoming) {
      // The rest of its frame goes nowhere: the buffer is the caller's again.
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
      if (!is_poisoned()) {
        push(p, {.type = FrameType::kProbeReply, .descriptor = {.sequence = last_called_}});
      }
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
      fail(std::move(*cause), root >= 0 && root < size() && root != rank_ ? root : p.who.rank);
      return;
    }
    default:
      throw_error(ErrorKind::kInternal, "group '{}': {} sent a frame of type {} on a side link",
                  name_, p.who.text(), name_of(header.type));
  }
}

bool Core::nobody_is_here() const noexcept {
  return std::none_of(peers_.begin(), peers_.end(), [this](const Peer& p) {
    return is_other(p) && p.state == Peer::State::kHere;
  });
}

void Core::look_for_silence(Clock::time_point now) {
  if (now < next_silence_look_) return;
  next_silence_look_ = now + kSilenceLook;
  for (Peer& p : peers_) {
    if (!is_other(p)) continue;
    p.side->look_for_silence(now);
    for (const auto& lane : p.data) lane->look_for_silence(now);
  }
}

// A rank's links stay open while a child that it has forked lives.
void Core::look_at_processes(Clock::time_point now) {
  if (now < next_process_look_) return;
  next_process_look_ = now + kProcessLook;
  process_entries_.clear();
  for (const Peer& p : peers_) {
    process_entries_.push_back({p.has_exited ? -1 : p.process.get(), POLLIN, 0});
  }
  if (::poll(process_entries_.data(), process_entries_.size(), 0) <= 0) return;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (process_entries_[i].revents != 0) peers_[i].has_exited = true;
  }
}

void Core::look_at_ended_peers(Clock::time_point now) {
  for (Peer& p : peers_) {
    if (!is_other(p) || is_poisoned()) continue;
    // Nothing more comes once the next frame's lane has ended; the others may still hold data.
    const bool data_ended = incoming_lane(p).health() != Link::Health::kOpen;
    const bool side_ended = p.side->health() != Link::Health::kOpen;
    const bool refuses =
        std::ranges::any_of(p.data, [](const auto& lane) { return lane->refuses(); });
    if (!data_ended && !side_ended && !refuses && !p.has_exited) continue;
    if (!p.has_ended) {
      p.has_ended = true;
      p.ended = now;
    }
    if (side_ended && p.state == Peer::State::kHere) p.state = Peer::State::kGone;
    // Its last words, if any, come on the side link: wait for its end, but not for ever.
    const bool is_late = now >= p.ended + kGoneGrace;
    if (p.has_exited && is_late && p.state == Peer::State::kHere) p.state = Peer::State::kGone;
    if (is_late && p.state == Peer::State::kGone) {
      const std::lock_guard lock(error_mutex_);
      if (!gone_rank_) {
        gone_rank_ = std::make_exception_ptr(GroupError({.kind = ErrorKind::kPeerFailed,
                                                         .blame = blame_of_gone(ended_link(p)),
                                                         .rank = p.who.in_job(),
                                                         .found_by = identity(rank_).in_job(),
                                                         .text = text_of_gone(p)}));
      }
    }
    for (const Ref<Message>& message : messages_) {
      const bool is_awaited =
          message->peer == p.who.rank ||
          (message->peer == kAnySource && (p.state == Peer::State::kGone || nobody_is_here()));
      if (is_awaited && (side_ended || is_late)) return fail_gone(p, *message);
    }
    if (queue_.empty()) continue;
    const Collective& running = *queue_.front();
    const bool is_needed = running.needs(p.who.rank) && data_ended;
    const bool has_left = p.state == Peer::State::kLeft;
    const bool had_called = has_left && p.last_called >= running.descriptor.sequence;
    if (had_called ? is_needed : has_left || is_late || (is_needed && side_ended)) {
      return fail_gone(p, running);
    }
  }
}

void Core::fail_gone(const Peer& p, const Operation& operation) {
  if (p.state == Peer::State::kLeft) {
    fail(cause_in(operation.descriptor, ErrorKind::kPeerFailed,
                  fmt::format("{} has left group '{}' without calling it (its last call was #{})",
                              p.who.text(), name_, p.last_called),
                  Blame::kLeft, p.who.in_job()));
    return;
  }
  fail(cause_in(operation.descriptor, ErrorKind::kPeerFailed, text_of_gone(p),
                blame_of_gone(ended_link(p)), p.who.in_job()));
}

const Link& Core::ended_link(const Peer& p) const {
  const Link* ended = p.side->health() != Link::Health::kOpen ? p.side.get() : &incoming_lane(p);
  for (const auto& lane : p.data) {
    if (ended->health() == Link::Health::kOpen && lane->refuses()) ended = lane.get();
  }
  return *ended;
}

Blame Core::blame_of_gone(const Link& ended) noexcept {
  return ended.health() == Link::Health::kSilent ? Blame::kUnreachable : Blame::kGone;
}

std::string Core::text_of_gone(const Peer& p) const {
  const Link& ended = ended_link(p);
  return ended.health() == Link::Health::kSilent
             ? fmt::format("{} cannot be reached: its host has acknowledged nothing for 10 s",
                           p.who.text())
             : gone_text(p.who.text(), ended.health_text());
}

// Time in which this process was stopped is not time that it has waited.
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
  timer_ = Clock::time_point::max();
  for (const Ref<Message>& message : messages_) {
    look_at_clock(*message, now);
    if (is_poisoned()) return;
  }
  for (const Ref<Collective>& operation : queue_) {
    look_at_clock(*operation, now);
    if (is_poisoned()) return;
  }
  for (const Peer& p : peers_) {
    if (p.has_ended && now < p.ended + kGoneGrace) timer_ = std::min(timer_, p.ended + kGoneGrace);
  }
}

void Core::look_at_clock(Operation& operation, Clock::time_point now) {
  const bool is_slow = operation.timeout > policy_.speak_after;
  if (operation.deadline.has_passed(now)) {
    const int missing = missing_rank(operation);
    recorder_.wait_for(operation.slot, missing);
    fail(cause_in(operation.descriptor, ErrorKind::kTimeout,
                  fmt::format("timed out after {} s {}", seconds_text(operation.stated_timeout),
                              missing_text(operation)),
                  missing >= 0 ? Blame::kMissing : Blame::kNone,
                  missing >= 0 ? identity(missing).in_job() : -1));
    return;
  }
  if (operation.questions.are_due(operation.begin, now, operation.timeout, policy_.speak_after)) {
    ask_peers();
  }
  if (is_slow && !operation.has_warned && now >= operation.begin + policy_.speak_after) {
    operation.has_warned = true;
    recorder_.wait_for(operation.slot, missing_rank(operation));
    log::warning("{}", with_operation(operation.descriptor,
                                      fmt::format("{} s {}", seconds_text(policy_.speak_after),
                                                  missing_text(operation))));
  }
  timer_ = std::min(timer_, operation.deadline.when());
  timer_ = std::min(timer_, ask_time(operation, policy_.speak_after));
  if (is_slow && !operation.has_warned)
    timer_ = std::min(timer_, operation.begin + policy_.speak_after);
}

void Core::ask_peers() {
  for (Peer& p : peers_) {
    if (!is_other(p)) continue;
    push(p, {.type = FrameType::kProbe});
    transmit_side(p);
  }
}

std::vector<Identity> Core::silent_peers(Clock::time_point asked) const {
  std::vector<Identity> silent;
  for (const Peer& p : peers_) {
    if (is_poisoned() || !is_other(p) || p.last_answer >= asked || p.state != Peer::State::kHere) {
      continue;
    }
    silent.push_back(p.who);
  }
  return silent;
}

int Core::missing_rank(const Operation& operation) const {
  const Descriptor& d = operation.descriptor;
  if (d.op == OpKind::kSend || d.op == OpKind::kRecv) {
    return static_cast<const Message&>(operation).peer;
  }
  if (!queue_.empty() && queue_.front()->descriptor.sequence < d.sequence) {
    return missing_rank(*queue_.front());
  }
  const auto first = [&](const auto& is_missing) {
    const auto found = std::find_if(peers_.begin(), peers_.end(),
                                    [&](const Peer& p) { return is_other(p) && is_missing(p); });
    return found == peers_.end() ? -1 : found->who.rank;
  };
  // One that is stopped cannot even say that it has not called it.
  int rank =
      first([&](const Peer& p) { return operation.questions.are_unanswered(p.last_answer); });
  if (rank < 0) rank = first([&](const Peer& p) { return p.last_called < d.sequence; });
  if (rank >= 0) return rank;
  const auto& running = static_cast<const Collective&>(operation);
  return first([&](const Peer& p) { return running.needs(p.who.rank); });
}

std::string Core::missing_text(const Operation& operation) const {
  const Descriptor& d = operation.descriptor;
  if (d.op == OpKind::kSend || d.op == OpKind::kRecv) {
    const auto& message = static_cast<const Message&>(operation);
    if (message.peer == kAnySource) return missing_message_text(d, {}, false);
    const Peer& p = peers_[static_cast<std::size_t>(message.peer)];
    return missing_message_text(d, p.who.text(), operation.questions.are_unanswered(p.last_answer));
  }
  if (!queue_.empty() && queue_.front()->descriptor.sequence < d.sequence) {
    const Collective& first = *queue_.front();
    return fmt::format("behind {}, which is {}", text(first.descriptor), missing_text(first));
  }
  std::string missing;
  const auto add = [&](const Peer& p, std::string_view why) {
    missing += fmt::format("{}{}, {}", missing.empty() ? "" : "; ", p.who.text(), why);
  };
  for (const Peer& p : peers_) {
    if (!is_other(p) || p.last_called >= d.sequence) continue;
    if (operation.questions.are_unanswered(p.last_answer)) {
      add(p, "which does not answer (stopped, or its host cannot be reached)");
    } else {
      add(p, p.last_called == 0
                 ? std::string("which has not called it, nor anything before it")
                 : fmt::format("which has not called it (its last call was #{})", p.last_called));
    }
  }
  if (missing.empty()) {
    for (const Peer& p : peers_) {
      if (is_other(p) && operation.questions.are_unanswered(p.last_answer)) {
        add(p, "which has called it and does not answer any more (stopped?)");
      }
    }
  }
  if (missing.empty()) {
    // Everybody answers: named only now, since a rank behind one that does not answer is slow too.
    const auto& running = static_cast<const Collective&>(operation);
    for (const Peer& p : peers_) {
      if (is_other(p) && running.needs(p.who.rank)) {
        add(p, "which has called it and is slow to send or to receive its data");
      }
    }
  }
  return missing.empty() ? "waiting for its own data to leave" : "waiting for " + missing;
}

}  // namespace dl::collectives::tcp
