#include "collectives/tcp/core/driver.h"

#include <algorithm>
#include <utility>

#include "collectives/process/at_exit.h"
#include "core/base/log/log.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

constexpr int kFramesRead = 8;
// A peer that no longer reads delays this rank's leaving by at most this long.
constexpr auto kRetireTime = 1s;
constexpr auto kRetireLook = 1ms;
// Peers that have not heard of a failure yet may go on sending: read their data for at most this
// long before the failure takes effect.
constexpr auto kMostTakeTime = 100ms;

}  // namespace

Driver::Driver(const Membership& group, GroupStatus& status, Ledger& ledger, News& news,
               Links& links, Mesh mesh)
    : group_(group),
      status_(status),
      ledger_(ledger),
      news_(news),
      peers_(group, status, links, std::move(mesh)),
      collectives_(group, status, ledger, links.staging()),
      messages_(group, status, ledger, peers_) {}

template <typename F>
bool Driver::guarded(const F& step) noexcept {
  try {
    step();
    return true;
  } catch (const std::exception&) {
    fail(cause_caught(group_.name));
  }
  return false;
}

void Driver::begin() {
  guarded([this] { peers_.open(); });
}

void Driver::start(Ref<Operation> operation) {
  const Descriptor& d = operation->descriptor;
  // It may have been called before the group broke, and have reached the driver after.
  std::exception_ptr refused = status_.refusal(d, d.sequence);
  if (!refused && is_retiring_) {
    refused = std::make_exception_ptr(
        Error(ErrorKind::kAborted,
              fmt::format("{}: group '{}' was destroyed before it began", text(d), group_.name)));
  }
  if (refused) {
    ledger_.end(std::move(operation), refused);
  } else if (row_of(d.op).is_message) {
    Ref<Message> message(static_cast<Message*>(std::exchange(operation, nullptr).get()));
    guarded([&] { messages_.start(std::move(message)); });
  } else {
    Ref<Collective> collective(static_cast<Collective*>(std::exchange(operation, nullptr).get()));
    collectives_.start(std::move(collective));
  }
}

void Driver::take_heard() {
  for (Heard& heard : std::exchange(heard_, {})) {
    fail(std::move(heard.cause), heard.completes_until, heard.told_by);
  }
}

void Driver::fail(Cause cause, std::optional<std::uint64_t> completes_until, int told_by) {
  // A cause that peers have reported counts before one that this rank finds later.
  take_heard();
  // A collective that should still complete, but fails, ends with the first cause.
  if (status_.is_broken()) return complete_only(completes_until.value_or(status_.completed()));
  std::string own_call = collectives_.call_of(cause);
  status_.break_with(std::move(cause), completes_until.value_or(status_.completed()),
                     std::move(own_call), [&](const Cause& found) { tell(found, told_by); });
  news_.tell();
  end_refused(status_.error());
}

void Driver::tell(const Cause& cause, int told_by) {
  const std::string said = encode(as_told(cause, group_.self().in_job()), kMostAbortBytes);
  for (const Peer& p : peers_) {
    if (!p.is_linked()) continue;
    messages_.drop_frames(p);
    if (p.who.rank == told_by) continue;
    messages_.push(p,
                   {.type = FrameType::kAbort,
                    .descriptor = {.sequence = status_.completes_until(),
                                   .root = told_by >= 0 ? told_by : group_.rank},
                    .detail = static_cast<std::uint8_t>(cause.kind)},
                   said);
    messages_.transmit(p);
  }
}

void Driver::complete_only(std::uint64_t until) {
  const std::exception_ptr first = status_.error();
  const bool is_less = status_.complete_only(until, [&] {
    if (status_.is_closed()) tell(cause_of(first), -1);
  });
  if (is_less) end_refused(first);
}

void Driver::end_refused(const std::exception_ptr& error) {
  std::vector<Ref<Operation>> over = collectives_.drop_after(status_.completes_until());
  for (Ref<Message>& message : messages_.drop()) over.emplace_back(std::move(message));
  for (Ref<Operation>& operation : over) ledger_.end(std::move(operation), error);
}

void Driver::leave_at_exit() {
  is_leaving_ = true;
  leave_begin_ = last_move_ = Clock::now();
}

void Driver::go_on_leaving(Time now, bool moved) {
  const std::deque<Ref<Collective>>& queue = collectives_.queue();
  const std::vector<Ref<Message>>& messages = messages_.under_way();
  if (moved) last_move_ = now;
  if (status_.is_closed() || (queue.empty() && messages.empty())) {
    is_leaving_ = false;
    retire();
  } else if (now - last_move_ > kExitQuiet || now - leave_begin_ > kExitTime) {
    is_leaving_ = false;
    const Operation& first =
        messages.empty() ? static_cast<Operation&>(*queue.front()) : *messages.front();
    log::warning("{}", unfinished_text(group_.self().text(), group_.name, first.descriptor,
                                       missing(first).text, queue.size() + messages.size()));
    news_.tell_retired();  // as far as it can be: the peers notice the end of its process
  }
}

void Driver::retire() {
  if (is_retiring_) return;
  take_heard();
  is_retiring_ = true;
  retire_by_ = Clock::now() + kRetireTime;
  if (status_.is_broken()) return complete_only(status_.completed());
  const std::deque<Ref<Collective>>& queue = collectives_.queue();
  const std::vector<Ref<Message>>& messages = messages_.under_way();
  if (!queue.empty() || !messages.empty()) {
    const Operation& first =
        queue.empty() ? static_cast<Operation&>(*messages.front()) : *queue.front();
    fail(cause_of_destruction(group_.name, group_.self().text(), &first.descriptor));
    return;
  }
  for (const Peer& p : peers_) {
    if (!p.is_linked()) continue;
    messages_.push(
        p, {.type = FrameType::kGoodbye, .descriptor = {.sequence = collectives_.last_called()}});
  }
}

bool Driver::close_if_retired() {
  if (!is_retiring_) return false;
  const auto has_left = [this](const Peer& p) {
    if (!p.is_linked() || p.side->health() != Link::Health::kOpen) return true;
    // A broken group discards the rest of its data. Data of a completed collective that is already
    // in the kernel is still sent after close(): a peer that is still in this collective has sent
    // nothing later, so no unread bytes can reset the connection.
    const bool data_left = status_.is_broken() || std::ranges::all_of(p.data, [](const auto& lane) {
                             return !lane->is_sending() && lane->is_drained();
                           });
    return data_left && messages_.is_drained(p);
  };
  if (Clock::now() < retire_by_ && !std::ranges::all_of(peers_, has_left)) return false;
  peers_.close();
  news_.tell_retired();
  return true;
}

bool Driver::advance(Time now) {
  bool moved = false;
  const bool is_well = guarded([&] {
    for (Peer& p : peers_) {
      if (p.is_linked()) moved |= advance_side(p, now);
    }
    if (!status_.is_closed()) {
      for (Peer& p : peers_) {
        if (p.is_linked()) moved |= collectives_.advance(p, now);
      }
      moved |= collectives_.advance_front();
    }
    if (!heard_.empty()) {
      if (moved && now - heard_at_ < kMostTakeTime) return;
      take_heard();
    }
    peers_.look_around(now);
    look_at_ends(now);
    look_at_clocks(now);
  });
  if (!is_well || !heard_.empty()) timer_ = now;
  if (is_leaving_) go_on_leaving(now, moved);
  if (is_leaving_ || is_retiring_) timer_ = std::min(timer_, now + kRetireLook);
  return moved;
}

bool Driver::advance_side(Peer& p, Time now) {
  bool has_received = false;
  for (int frame = 0; frame < kFramesRead; ++frame) {
    const Messages::Received received = messages_.receive(p);
    has_received |= received.has_moved;
    if (received.control) on_control(p, *received.control);
    if (!received.is_whole) break;
  }
  if (has_received) p.last_heard = now;
  return messages_.transmit(p) || has_received;
}

void Driver::on_control(Peer& p, const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kProbe:
      messages_.push(p, {.type = FrameType::kProbeReply,
                         .descriptor = {.sequence = collectives_.last_called()}});
      return;
    case FrameType::kProbeReply:
      p.last_called = std::max(p.last_called, header.descriptor.sequence);
      p.last_answer = Clock::now();
      news_.tell();
      return;
    case FrameType::kGoodbye:
      p.state = Peer::State::kLeft;
      p.last_called = header.descriptor.sequence;
      p.for_each_link([](Link& link) { link.acknowledge_now(); });
      return;
    case FrameType::kAbort: {
      auto cause = rendezvous::decode_cause(messages_.payload(p));
      DL_CHECK(cause && cause->blame != Blame::kNone, kInternal,
               "group '{}': {} broke the group, with a cause that cannot be read", group_.name,
               p.who.text());
      const int root = header.descriptor.root;
      const bool is_of_third = root >= 0 && root < group_.size() && root != group_.rank;
      if (heard_.empty()) heard_at_ = Clock::now();
      heard_.push_back({.cause = std::move(*cause),
                        .completes_until = header.descriptor.sequence,
                        .told_by = is_of_third ? root : p.who.rank});
      return;
    }
    default:
      throw_error(ErrorKind::kInternal, "group '{}': {} sent a frame of type {} on a side link",
                  group_.name, p.who.text(), name_of(header.type));
  }
}

void Driver::look_at_ends(Time now) {
  next_end_look_ = Time::max();
  if (status_.is_closed()) return;
  for (Peer& p : peers_) {
    if (!p.is_linked()) continue;
    const Link& lane = collectives_.incoming_lane(p);
    const auto end = peers_.look_at_end(p, lane, now);
    if (!end) continue;
    next_end_look_ = std::min(next_end_look_, end->next_look);
    if (p.is_late && p.state == Peer::State::kGone && !news_.gone_rank()) {
      news_.note_gone(peers_.end_of(p, lane));
    }
    const bool has_left = p.state == Peer::State::kLeft;
    const bool is_over =
        end->side ? has_left || end->is_gone || p.is_late : p.has_exited && p.is_late;
    const bool concerns_any = p.state == Peer::State::kGone || peers_.are_all_gone();
    if (const Message* const message = is_over ? messages_.awaiting(p, concerns_any) : nullptr) {
      throw GroupError(peers_.end_in(message->descriptor, p, lane));
    }
    if (collectives_.queue().empty()) continue;
    const Collective& running = *collectives_.queue().front();
    const bool is_needed = running.execution.needs(p.who.rank);
    bool fails = false;
    if (has_left) {
      fails = p.last_called < running.descriptor.sequence || (is_needed && end->data);
    } else {
      // An operation that needs nothing more from this rank continues. A rank that still needs data
      // has its own links to the peer, fails, and tells all others.
      const bool has_lost = end->data || end->refuses || p.has_exited;
      fails = is_needed && ((end->data && end->is_gone) || (has_lost && p.is_late));
    }
    if (fails) throw GroupError(peers_.end_in(running.descriptor, p, lane));
  }
}

void Driver::look_at_clocks(Time now) {
  timer_ = next_end_look_;
  bool is_to_probe = false;
  for (const Ref<Message>& message : messages_.under_way()) {
    is_to_probe |= look_at_clock(*message, now);
  }
  for (const Ref<Collective>& collective : collectives_.queue()) {
    is_to_probe |= look_at_clock(*collective, now);
  }
  if (is_to_probe) ask_peers();
}

bool Driver::look_at_clock(Operation& operation, Time now) {
  Judgement judgement = judge(operation.waiting, operation.descriptor, now,
                              group_.policy.warn_after, [&] { return missing(operation); });
  if (judgement.waits_for) ledger_.log().wait_for(operation.slot, *judgement.waits_for);
  if (judgement.failure) throw GroupError(*std::move(judgement.failure));
  if (!judgement.warning.empty()) log::warning("{}", judgement.warning);
  timer_ = std::min(timer_, judgement.next);
  return judgement.is_to_probe;
}

Missing Driver::missing(const Operation& operation, Time asked) const {
  const Descriptor& d = operation.descriptor;
  if (row_of(d.op).is_message) {
    return missing_for(d, static_cast<const Message&>(operation).peer, others(operation, asked));
  }
  const std::deque<Ref<Collective>>& queue = collectives_.queue();
  if (!queue.empty() && queue.front()->descriptor.sequence < d.sequence) {
    const Collective& front = *queue.front();
    return missing_behind(front.descriptor, missing(front, asked));
  }
  return missing_in(d, others(operation, asked));
}

std::vector<PeerState> Driver::others(const Operation& operation, Time asked) const {
  const auto* const collective = row_of(operation.descriptor.op).is_message
                                     ? nullptr
                                     : static_cast<const Collective*>(&operation);
  const ProbeSchedule& probes = operation.waiting.probes;
  std::vector<PeerState> others;
  for (const Peer& p : peers_) {
    if (p.who.rank == group_.rank) continue;
    others.push_back(
        {.who = &p.who,
         .presence = p.state,
         .contact = probes.are_unanswered(p.last_answer) ? peers_.contact_with(p, probes.asked_at())
                                                         : Contact::kAnswers,
         .last_called = p.last_called,
         .has_told = p.last_answer >= asked,
         .is_needed = collective != nullptr && collective->execution.needs(p.who.rank)});
  }
  return others;
}

void Driver::ask_peers() {
  for (const Peer& p : peers_) {
    if (!p.is_linked()) continue;
    messages_.push(p, {.type = FrameType::kProbe});
    messages_.transmit(p);
  }
}

}  // namespace dl::collectives::tcp
