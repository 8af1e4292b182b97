#include "collectives/tcp/traffic/messages.h"

#include <algorithm>
#include <utility>

namespace dl::collectives::tcp {
namespace {

constexpr int kFramesSent = 8;
// A rank may send another one so many bytes of small messages that no receive has taken yet.
constexpr std::size_t kCreditBytes = 1024 * 1024;
// Credit is returned in portions, not with every message.
constexpr std::size_t kCreditPortion = kCreditBytes / 8;

Envelope envelope_of(const FrameHeader& header) noexcept {
  const Descriptor& d = header.descriptor;
  return {.count = d.count,
          .id = header.aux,
          .tag = static_cast<std::uint32_t>(d.root),
          .dtype = d.dtype,
          .is_request = header.type == FrameType::kRequest,
          .bytes = header.length,
          .cost = kHeaderBytes + header.length};
}

bool is_of_message(FrameType type) noexcept {
  return type == FrameType::kMessage || type == FrameType::kRequest || type == FrameType::kClear ||
         type == FrameType::kBulk || type == FrameType::kCredit;
}

}  // namespace

Messages::Messages(const Membership& group, const GroupStatus& status, Ledger& ledger, Peers& peers)
    : group_(group),
      status_(status),
      ledger_(ledger),
      peers_(peers),
      matching_(group.name, group.rank, kCreditBytes) {
  sides_.reserve(group_.ranks.size());
  for (int r = 0; r < group_.size(); ++r) {
    matching_.add_rank(group_.who(r));
    sides_.push_back({.talk = {r, matching_, kMostMessageBytes}, .credit = kCreditBytes});
  }
}

void Messages::start(Ref<Message> message) {
  under_way_.push_back(message);
  ledger_.begin(*message);
  if (message->is_send()) {
    const Peer& p = peers_[message->peer];
    if (p.state == Peer::State::kLeft) {
      throw GroupError(peers_.end_in(message->descriptor, p, *p.side));
    }
    if (p.state == Peer::State::kGone) return;  // fails once the cause of its end is known
    side(p).talk.send(std::move(message));
    announce(side(p));
  } else if (const auto found = matching_.post(message)) {
    Side& from = side(peers_[message->peer]);
    settle(from, from.talk.take(std::move(message), *found));
  }
}

const Message* Messages::awaiting(const Peer& p, bool any_source) const noexcept {
  const auto found = std::ranges::find_if(under_way_, [&](const Ref<Message>& message) {
    return message->peer == p.who.rank || (any_source && message->peer == kAnySource);
  });
  return found == under_way_.end() ? nullptr : found->get();
}

void Messages::push(Side& to, FrameHeader header, std::vector<std::byte> payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  to.out.push_back({header, std::move(payload)});
}

void Messages::push(const Peer& p, FrameHeader header, std::string_view payload) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(payload.data());
  push(side(p), header, {bytes, bytes + payload.size()});
}

void Messages::announce(Side& to) {
  while (const Message* const next = to.talk.next()) {
    const bool is_small = to.talk.is_small(*next);
    const FrameHeader header{.type = is_small ? FrameType::kMessage : FrameType::kRequest,
                             .descriptor = next->descriptor,
                             .hash = next->hash,
                             .aux = is_small ? 0 : to.talk.next_id()};
    const std::size_t bytes = is_small ? next->bytes : 0;
    const std::size_t cost = kHeaderBytes + bytes;
    if (to.credit < cost) return;
    to.credit -= cost;
    push(to, header, {next->buffer, next->buffer + bytes});
    Ref<Message> message = to.talk.announce();
    if (is_small) end(std::move(message));
  }
}

bool Messages::load(const Peer& p, Side& to) {
  if (!to.out.empty()) {
    to.out_payload = std::move(to.out.front().payload);
    p.side->send(to.out.front().header, to.out_payload.data());
    to.out.pop_front();
    return true;
  }
  const auto* const cleared = to.talk.cleared();
  if (cleared == nullptr) return false;
  const auto& [id, message] = *cleared;
  to.bulk_leaving = std::min(kMostSliceBytes, message->bytes - message->moved);
  p.side->send({.type = FrameType::kBulk,
                .length = static_cast<std::uint32_t>(to.bulk_leaving),
                .offset = message->moved,
                .aux = id},
               message->buffer + message->moved);
  return true;
}

bool Messages::transmit(const Peer& p) {
  Side& to = side(p);
  bool moved = false;
  for (int frame = 0; frame < kFramesSent; ++frame) {
    if (!p.side->is_sending() && !load(p, to)) break;
    if (!p.side->flush()) break;
    moved = true;
    if (to.bulk_leaving > 0) {
      Ref<Message> message = to.talk.cleared()->second;
      message->moved += std::exchange(to.bulk_leaving, 0);
      if (message->moved == message->bytes) {
        to.talk.end_cleared();
        end(std::move(message));
      }
    }
  }
  return moved;
}

Messages::Received Messages::receive(const Peer& p) {
  Side& from = side(p);
  const FrameHeader* const header = p.side->header();
  if (header == nullptr) return {};
  if (!from.has_begun) {
    from.incoming_to = begin_frame(from, *header);
    from.has_begun = true;
  }
  bool moved = false;
  while (p.side->payload_left() > 0) {
    const std::size_t got = p.side->read(from.incoming_to, p.side->payload_left());
    if (got == 0) return {.has_moved = moved};
    from.incoming_to += got;
    moved = true;
  }
  from.has_begun = false;
  const FrameHeader whole = *header;
  p.side->end_frame();
  if (!is_of_message(whole.type)) return {.has_moved = true, .is_whole = true, .control = whole};
  if (!status_.is_broken()) end_frame(p, from, whole);
  return {.has_moved = true, .is_whole = true};
}

// Chooses the destination of the payload.
std::byte* Messages::begin_frame(Side& from, const FrameHeader& header) {
  if (!status_.is_broken() && header.type == FrameType::kMessage) {
    return from.talk.begin_message(envelope_of(header));
  }
  if (!status_.is_broken() && header.type == FrameType::kBulk) {
    return from.talk.begin_slice(header.aux, header.offset, header.length);
  }
  return from.talk.begin_other(header.length);
}

void Messages::end_frame(const Peer& p, Side& from, const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kMessage:
    case FrameType::kRequest:
      return settle(from, from.talk.end_message(envelope_of(header)));
    case FrameType::kBulk:
      return settle(from, from.talk.end_slice(header.aux, header.length));
    case FrameType::kClear:
      return from.talk.clear(header.aux);
    default:
      DL_CHECK(header.aux <= kCreditBytes - from.credit, kInternal,
               "group '{}': {} gave back more credit than it got", group_.name, p.who.text());
      from.credit += header.aux;
      announce(from);
      return;
  }
}

void Messages::settle(Side& with, Conversation<Message>::Outcome outcome) {
  with.owed_credit += outcome.credit;
  if (with.owed_credit >= kCreditPortion) {
    push(with, {.type = FrameType::kCredit, .aux = std::exchange(with.owed_credit, 0)}, {});
  }
  if (outcome.clear) push(with, {.type = FrameType::kClear, .aux = *outcome.clear}, {});
  if (outcome.received) end(std::move(outcome.received));
}

std::string_view Messages::payload(const Peer& p) const noexcept {
  const std::vector<std::byte>& bytes = side(p).talk.payload();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool Messages::is_drained(const Peer& p) const noexcept {
  return side(p).out.empty() && !p.side->is_sending() && p.side->is_drained();
}

void Messages::end(Ref<Message> message) {
  std::erase(under_way_, message);
  ledger_.end(std::move(message), nullptr);
}

// A slice that is partly sent must be finished, or the peer takes the next frame for its bytes; it
// is sent from a copy, because the caller gets its buffer back.
void Messages::drop_frames(const Peer& p) {
  Side& to = side(p);
  to.out.clear();
  if (to.bulk_leaving > 0) {
    const Message& message = *to.talk.cleared()->second;
    const std::byte* const slice = message.buffer + message.moved;
    to.out_payload.assign(slice, slice + std::exchange(to.bulk_leaving, 0));
    p.side->replace_payload(to.out_payload.data());
  }
  to.talk.drop_sends();
}

std::vector<Ref<Message>> Messages::drop() {
  matching_.clear();
  for (const Peer& p : peers_) {
    // Discard the rest of a frame: the caller gets the buffer back.
    Side& from = side(p);
    if (std::byte* const to = from.talk.drop(p.is_linked() ? p.side->payload_left() : 0)) {
      from.incoming_to = to;
    }
  }
  return std::exchange(under_way_, {});
}

}  // namespace dl::collectives::tcp
