// Core's functions that send and receive messages, and all other frames of the side links.
//
// A small message is sent at once and uses up credit, which its receiver gives back when it
// consumes the message. This bounds the memory for unexpected messages, and a side link never has
// to stall. A large message first asks (kRequest), and is sent when its receiver has a buffer for
// it (kClear).
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
    p.unsent.push_back(std::move(message));
    advance_sends(p);
  } else if (const auto found = matching_.post(message)) {
    receive(message, *found);
  }
}

void Core::advance_sends(Peer& p) {
  while (!p.unsent.empty()) {
    const Ref<Message> message = p.unsent.front();
    const bool is_small = message->bytes <= kMostMessageBytes;
    FrameHeader header{.type = is_small ? FrameType::kMessage : FrameType::kRequest,
                       .descriptor = message->descriptor,
                       .hash = message->hash};
    std::vector<std::byte> payload;
    if (is_small) {
      payload.assign(message->buffer, message->buffer + message->bytes);
    } else {
      header.aux = next_request_;
    }
    const std::size_t cost = kHeaderBytes + payload.size();
    if (p.credit < cost) return;
    p.credit -= cost;
    p.unsent.pop_front();
    push(p, header, std::move(payload));
    if (is_small) {
      end_message(message);
    } else {
      p.requested.emplace(next_request_++, message);
    }
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
      } else if (!p.bulk.empty()) {
        const auto& [id, message] = p.bulk.front();
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
      const Ref<Message> message = p.bulk.front().second;
      message->moved += std::exchange(p.bulk_leaving, 0);
      if (message->moved == message->bytes) {
        p.bulk.pop_front();
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
  p.incoming = nullptr;
  p.incoming_payload.clear();
  if (!is_poisoned() && header.type == FrameType::kMessage) {
    p.incoming = matching_.take_posted(p.who.rank, envelope_of(header));
    if (p.incoming) {
      p.incoming_to = p.incoming->buffer;
      return;
    }
  }
  if (!is_poisoned() && header.type == FrameType::kBulk) {
    const auto found = p.receiving.find(header.aux);
    DL_CHECK(found != p.receiving.end() && header.offset == found->second->moved &&
                 header.length <= found->second->bytes - found->second->moved,
             kInternal, "group '{}': {} sent a slice of a message that was not cleared", name_,
             p.who.text());
    p.incoming = found->second;
    p.incoming_to = p.incoming->buffer + p.incoming->moved;
    return;
  }
  p.incoming_payload.resize(header.length);
  p.incoming_to = p.incoming_payload.data();
}

void Core::end_side_frame(Peer& p, const FrameHeader& header) {
  const Ref<Message> message = std::exchange(p.incoming, nullptr);
  if (header.type != FrameType::kMessage && header.type != FrameType::kRequest &&
      header.type != FrameType::kBulk && header.type != FrameType::kClear &&
      header.type != FrameType::kCredit) {
    on_control(p, header);
    return;
  }
  if (is_poisoned()) return;
  switch (header.type) {
    case FrameType::kMessage:
      if (message) {
        return_credit(p, envelope_of(header).cost);
        end_message(message);
        return;
      }
      [[fallthrough]];
    case FrameType::kRequest: {
      Unexpected arrived{envelope_of(header), std::move(p.incoming_payload)};
      if (const auto asked = matching_.take_posted(p.who.rank, arrived)) {
        receive(asked, arrived);
      } else {
        matching_.keep(p.who.rank, std::move(arrived));
      }
      return;
    }
    case FrameType::kBulk:
      message->moved += header.length;
      if (message->moved == message->bytes) {
        p.receiving.erase(header.aux);
        end_message(message);
      }
      return;
    case FrameType::kClear: {
      const auto found = p.requested.find(header.aux);
      DL_CHECK(found != p.requested.end(), kInternal, "group '{}': {} cleared an unknown message",
               name_, p.who.text());
      p.bulk.emplace_back(found->first, found->second);
      p.requested.erase(found);
      return;
    }
    default:
      DL_CHECK(header.aux <= kCreditBytes - p.credit, kInternal,
               "group '{}': {} gave back more credit than it got", name_, p.who.text());
      p.credit += header.aux;
      advance_sends(p);
      return;
  }
}

void Core::receive(const Ref<Message>& message, const Unexpected& got) {
  Peer& p = peer(message->peer);
  return_credit(p, got.cost);
  if (got.is_request) {
    p.receiving.emplace(got.id, message);
    push(p, {.type = FrameType::kClear, .aux = got.id});
    return;
  }
  if (!got.payload.empty()) std::memcpy(message->buffer, got.payload.data(), got.payload.size());
  end_message(message);
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
