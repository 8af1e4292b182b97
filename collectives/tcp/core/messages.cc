// Core's functions that send and receive messages, and all other frames of the side links.
//
// Conversation says which message comes next. A side link never has to stall, because credit bounds
// what a receiver must keep.
#include <algorithm>
#include <cstring>

#include "collectives/tcp/core/core.h"

namespace dl::collectives::tcp {
namespace {

constexpr int kFramesARound = 8;
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

}  // namespace

void Core::push(Peer& p, FrameHeader header, std::vector<std::byte> payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  p.out.push_back({header, std::move(payload)});
}

void Core::start_message(Ref<Message> message) {
  messages_.push_back(message);
  if (message->descriptor.op == OpKind::kSend) {
    Peer& p = peer(message->peer);
    if (p.state == Peer::State::kLeft) return fail_gone(p, *message);
    if (p.state == Peer::State::kGone) return;  // fails once the cause of its end is known
    p.messages->send(std::move(message));
    advance_sends(p);
  } else if (const auto found = matching_.post(message)) {
    Peer& p = peer(message->peer);
    settle(p, p.messages->take(message, *found));
  }
}

void Core::advance_sends(Peer& p) {
  while (const Message* const next = p.messages->next()) {
    const bool is_small = p.messages->is_small(*next);
    FrameHeader header{.type = is_small ? FrameType::kMessage : FrameType::kRequest,
                       .descriptor = next->descriptor,
                       .hash = next->hash,
                       .aux = is_small ? 0 : p.messages->next_id()};
    const std::size_t bytes = is_small ? next->bytes : 0;
    const std::size_t cost = kHeaderBytes + bytes;
    if (p.credit < cost) return;
    p.credit -= cost;
    push(p, header, {next->buffer, next->buffer + bytes});
    const Ref<Message> message = p.messages->announce();
    if (is_small) end_message(message);
  }
}

bool Core::transmit_side(Peer& p) {
  bool moved = false;
  for (int frame = 0; frame < kFramesARound; ++frame) {
    if (!p.side->is_sending()) {
      if (!p.out.empty()) {
        p.out_payload = std::move(p.out.front().payload);
        p.side->send(p.out.front().header, p.out_payload.data());
        p.out.pop_front();
      } else if (const auto* const cleared = p.messages->cleared()) {
        const auto& [id, message] = *cleared;
        const std::size_t slice = std::min(kMostSliceBytes, message->bytes - message->moved);
        p.side->send({.type = FrameType::kBulk,
                      .length = static_cast<std::uint32_t>(slice),
                      .offset = message->moved,
                      .aux = id},
                     message->buffer + message->moved);
        p.bulk_leaving = slice;
      } else {
        break;
      }
    }
    if (!p.side->flush()) break;
    moved = true;
    if (p.bulk_leaving > 0) {
      const Ref<Message> message = p.messages->cleared()->second;
      message->moved += std::exchange(p.bulk_leaving, 0);
      if (message->moved == message->bytes) {
        p.messages->end_cleared();
        end_message(message);
      }
    }
  }
  return moved;
}

bool Core::advance_side(Peer& p, Engine::Clock::time_point now) {
  const bool received = receive_side(p);
  if (received) p.last_heard = now;
  return transmit_side(p) || received;
}

bool Core::receive_side(Peer& p) {
  bool moved = false;
  for (int frame = 0; frame < kFramesARound; ++frame) {
    const bool is_new = !p.side_begun;
    const FrameHeader* const header = p.side->header();
    if (header == nullptr) break;
    if (is_new) {
      begin_side_frame(p, *header);
      p.side_begun = true;
    }
    while (p.side->payload_left() > 0) {
      const std::size_t got = p.side->read(p.incoming_to, p.side->payload_left());
      if (got == 0) return moved;
      p.incoming_to += got;
      moved = true;
    }
    p.side_begun = false;
    const FrameHeader whole = *header;
    p.side->end_frame();
    end_side_frame(p, whole);
    moved = true;
  }
  return moved;
}

// Chooses the destination of the payload. A broken group still reads and discards messages, so that
// the frames behind them (aborts, goodbyes) arrive.
void Core::begin_side_frame(Peer& p, const FrameHeader& header) {
  if (!is_poisoned() && header.type == FrameType::kMessage) {
    p.incoming_to = p.messages->begin_message(envelope_of(header));
  } else if (!is_poisoned() && header.type == FrameType::kBulk) {
    p.incoming_to = p.messages->begin_slice(header.aux, header.offset, header.length);
  } else {
    p.incoming_to = p.messages->begin_other(header.length);
  }
}

void Core::end_side_frame(Peer& p, const FrameHeader& header) {
  if (header.type != FrameType::kMessage && header.type != FrameType::kRequest &&
      header.type != FrameType::kBulk && header.type != FrameType::kClear &&
      header.type != FrameType::kCredit) {
    on_control(p, header);
    return;
  }
  if (is_poisoned()) return;
  switch (header.type) {
    case FrameType::kMessage:
    case FrameType::kRequest:
      return settle(p, p.messages->end_message(envelope_of(header)));
    case FrameType::kBulk:
      return settle(p, p.messages->end_slice(header.aux, header.length));
    case FrameType::kClear:
      return p.messages->clear(header.aux);
    default:
      DL_CHECK(header.aux <= kCreditBytes - p.credit, kInternal,
               "group '{}': {} gave back more credit than it got", name_, p.who.text());
      p.credit += header.aux;
      advance_sends(p);
      return;
  }
}

void Core::settle(Peer& p, const Conversation<Message>::Outcome& outcome) {
  return_credit(p, outcome.credit);
  if (outcome.clear) push(p, {.type = FrameType::kClear, .aux = *outcome.clear});
  if (outcome.received) end_message(outcome.received);
}

void Core::return_credit(Peer& p, std::size_t bytes) {
  p.owed_credit += bytes;
  if (p.owed_credit >= kCreditPortion) {
    push(p, {.type = FrameType::kCredit, .aux = std::exchange(p.owed_credit, 0)});
  }
}

void Core::end_message(const Ref<Message>& message) {
  message->end(nullptr);
  std::erase(messages_, message);
  const std::lock_guard lock(finished_mutex_);
  finished_.emplace_back(message);
}

}  // namespace dl::collectives::tcp
