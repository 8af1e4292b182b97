// Conversation: the messages between this rank and one peer, for a group that frames them itself
// (tcp/, shm/). The group moves the bytes of the frames. The Conversation says which message comes
// next, which memory takes a payload, and what follows from a whole frame.
//
// A small message is one frame, sent at once. A large one asks first, with a request. Its receiver
// clears it when a receive has a buffer for it, and then it is sent in slices. Small messages and
// requests use up credit, which the receiver gives back when a receive takes them. This bounds the
// memory for messages that no receive has taken.
//
// `Message`: the group's MessageOf. For the group's driver only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/call/matching.h"
#include "core/base/lifetime/ref.h"

namespace dl::collectives {

template <typename Message>
class Conversation {
 public:
  // The sender numbers its large messages.
  using Id = std::uint64_t;
  // What a frame has led to.
  struct Outcome {
    Ref<Message> received{};    // has all its data
    std::size_t credit = 0;     // to be given back to the peer
    std::optional<Id> clear{};  // the id of the large message that the peer may send now
  };

  // `most_small`: bytes of the longest small message.
  Conversation(int peer, Matching<Message>& matching, std::size_t most_small)
      : peer_(peer), matching_(matching), most_small_(most_small) {}

  // To the peer. ----------------------------------------------------------------------------------
  void send(Ref<Message> message) { unsent_.push_back(std::move(message)); }
  bool is_small(const Message& message) const noexcept { return message.bytes <= most_small_; }
  // The next message to be announced, in the order of their calls; null: none.
  const Message* next() const noexcept { return unsent_.empty() ? nullptr : unsent_.front().get(); }
  // The id of its request, if it is large.
  Id next_id() const noexcept { return next_id_; }
  // Call it when the frame of next() is being sent. A large message then waits to be cleared.
  Ref<Message> announce() {
    Ref<Message> message = std::move(unsent_.front());
    unsent_.pop_front();
    if (!is_small(*message)) requested_.emplace(next_id_++, message);
    return message;
  }
  // The peer has cleared a message. Throws kInternal if there was no such request.
  void clear(Id id) {
    const auto found = requested_.find(id);
    if (found == requested_.end()) matching_.throw_violation(peer_, "cleared an unknown message");
    cleared_.emplace_back(id, std::move(found->second));
    requested_.erase(found);
  }
  // The message whose slices are sent now; null: none.
  const std::pair<Id, Ref<Message>>* cleared() const noexcept {
    return cleared_.empty() ? nullptr : &cleared_.front();
  }
  void end_cleared() noexcept { cleared_.pop_front(); }
  bool has_to_send() const noexcept { return !unsent_.empty() || !cleared_.empty(); }

  // From the peer. --------------------------------------------------------------------------------
  // Each begin_...() returns the memory for the payload of a frame.
  std::byte* begin_message(const Envelope& envelope) {
    incoming_ = matching_.take_posted(peer_, envelope);
    return incoming_ ? incoming_->buffer : begin_other(envelope.bytes);
  }
  // Throws kInternal if these are not the next bytes of a message that was cleared.
  std::byte* begin_slice(Id id, std::size_t offset, std::size_t bytes) {
    const auto found = receiving_.find(id);
    if (found == receiving_.end() || offset != found->second->moved ||
        bytes > found->second->bytes - found->second->moved) {
      matching_.throw_violation(peer_, "sent a slice of a message that was not cleared");
    }
    incoming_ = found->second;
    return incoming_->buffer + incoming_->moved;
  }
  // For all other frames: into payload().
  std::byte* begin_other(std::size_t bytes) {
    incoming_ = nullptr;
    payload_.resize(bytes);
    return payload_.data();
  }
  const std::vector<std::byte>& payload() const noexcept { return payload_; }

  // A whole small message has arrived, or a request.
  Outcome end_message(const Envelope& envelope) {
    if (Ref<Message> message = std::exchange(incoming_, nullptr)) {
      return {.received = std::move(message), .credit = envelope.cost};
    }
    Unexpected arrived{envelope, std::move(payload_)};
    if (auto receive = matching_.take_posted(peer_, arrived)) {
      return take(std::move(receive), arrived);
    }
    matching_.keep(peer_, std::move(arrived));
    return {};
  }
  Outcome end_slice(Id id, std::size_t bytes) {
    Ref<Message> message = std::exchange(incoming_, nullptr);
    message->moved += bytes;
    if (message->moved < message->bytes) return {};
    receiving_.erase(id);
    return {.received = std::move(message)};
  }
  // A receive takes a message that had arrived before it.
  Outcome take(Ref<Message> receive, const Unexpected& arrived) {
    if (arrived.is_request) {
      receiving_.emplace(arrived.id, std::move(receive));
      return {.credit = arrived.cost, .clear = arrived.id};
    }
    std::copy(arrived.payload.begin(), arrived.payload.end(), receive->buffer);
    return {.received = std::move(receive), .credit = arrived.cost};
  }
  // True if the peer's next frames may be what this rank waits for, apart from posted receives.
  bool awaits_frames() const noexcept { return !requested_.empty() || !receiving_.empty(); }

  // When the group breaks. ------------------------------------------------------------------------
  void drop_sends() noexcept {
    unsent_.clear();
    requested_.clear();
    cleared_.clear();
  }
  // Drops all messages. If the payload of a frame is on its way into a caller's buffer, returns
  // other memory for its last `left` bytes.
  std::byte* drop(std::size_t left) {
    drop_sends();
    receiving_.clear();
    return incoming_ ? begin_other(left) : nullptr;
  }

 private:
  const int peer_;
  Matching<Message>& matching_;
  const std::size_t most_small_;
  Id next_id_ = 1;
  std::deque<Ref<Message>> unsent_;
  std::unordered_map<Id, Ref<Message>> requested_;
  std::deque<std::pair<Id, Ref<Message>>> cleared_;
  std::unordered_map<Id, Ref<Message>> receiving_;  // the peer's that this rank has cleared
  Ref<Message> incoming_;                           // whose payload arrives
  std::vector<std::byte> payload_;                  // of other frames
};

}  // namespace dl::collectives
