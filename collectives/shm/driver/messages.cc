#include "collectives/shm/driver/messages.h"

#include <algorithm>
#include <utility>

#include "rendezvous/net/socket/local_socket.h"

namespace dl::collectives::shm {
namespace {

Envelope envelope_of(const Frame& frame) noexcept {
  return {.count = frame.count,
          .id = frame.place,
          .tag = frame.tag,
          .dtype = static_cast<DType>(frame.dtype),
          .is_request = frame.type == FrameType::kRequest,
          .bytes = frame.bytes,
          .cost = room_of(frame.bytes)};
}

}  // namespace

Messages::Messages(Peers& peers, Failure& failure, Queue& queue, Ledger& ledger, Bells& bells)
    : peers_(peers),
      failure_(failure),
      queue_(queue),
      ledger_(ledger),
      bells_(bells),
      matching_(peers.group(), peers.rank(), kCreditBytes) {
  lines_.reserve(static_cast<std::size_t>(peers.size()));
  for (const Peer& p : peers) {
    matching_.add_rank(p.who);
    lines_.push_back({.messages = {p.who.rank, matching_, kMostMessageBytes}});
  }
}

bool Messages::advance() {
  if (queue_.has_new_messages()) {
    queue_.take_messages(under_way_, taken_);
    for (Ref<Message>& message : taken_) {
      if (failure_.is_broken()) break;
      start(std::move(message));
    }
    taken_.clear();
  }
  bool moved = false;
  const auto ranks = static_cast<std::size_t>(peers_.size());
  for (std::size_t i = 0; i < ranks && !failure_.is_broken(); ++i) {
    Peer& p = peers_[static_cast<int>((matching_.first_look() + i) % ranks)];
    if (wants_frames(p)) moved |= receive_from(p);
    if (line(p).has_to_write()) moved |= send_to(p);
  }
  return moved;
}

void Messages::start(Ref<Message> message) {
  if (!message->is_send()) {
    if (const auto found = matching_.post(message)) {
      Peer& from = peers_[message->peer];
      settle(from, line(from).messages.take(std::move(message), *found));
    }
    return;
  }
  Peer& p = peers_[message->peer];
  if (p.is_gone.load(std::memory_order_acquire) || p.has_left()) {
    return failure_.fail(peers_.cause_of_end(p, message->descriptor));
  }
  line(p).messages.send(std::move(message));
}

// ---- to a peer ----------------------------------------------------------------------------------

// Returns false if the peer's socket does not accept the descriptor now: the peer is gone, or was
// stopped for long.
bool Messages::open_ring_to(Peer& p) {
  Line& line = this->line(p);
  if (line.ring.data() == nullptr) {
    line.ring = Segment::make(kRingSegmentBytes);
    new (line.ring.data()) RingCounters();
  }
  const Note note{.kind = Note::Kind::kRing};
  if (!rendezvous::send_passing(p.socket.get(), std::as_bytes(std::span(&note, 1)),
                                line.ring.fd())) {
    return false;
  }
  line.ring.close_fd();
  line.out.open(RingPlace::in(line.ring.data()));
  return true;
}

bool Messages::send_to(Peer& p) {
  Line& line = this->line(p);
  if (!line.out.is_open() && !open_ring_to(p)) return false;
  bool moved = false;
  for (std::size_t written = 0; written < kMostSliceBytes; moved = true) {
    if (line.out.left() == 0) {
      if (!begin_next_frame(line)) break;
      written += kFrameBytes;
      if (line.out.left() > 0) continue;  // the peer sees the frame with its first piece
    } else {
      const std::size_t piece = line.out.write(line.leaving->buffer + line.leaving->moved);
      if (piece == 0) break;
      line.leaving->moved += piece;
      written += piece;
    }
    bells_.published_to(p.who.rank);
    if (line.out.left() == 0 && line.leaving) end_frame_to(line);
  }
  return moved;
}

bool Messages::begin_next_frame(Line& line) {
  if (!line.clears.empty()) {
    if (!line.out.begin({.place = line.clears.front(), .type = FrameType::kClear}, nullptr)) {
      return false;
    }
    line.clears.pop_front();
    return true;
  }
  if (const Message* const next = line.messages.next()) {
    const bool is_small = line.messages.is_small(*next);
    const std::size_t payload = is_small ? next->bytes : 0;
    if (line.out.may_charge(room_of(payload))) {
      const Frame frame{.count = next->descriptor.count,
                        .place = is_small ? 0 : line.messages.next_id(),
                        .tag = next->tag(),
                        .bytes = static_cast<std::uint32_t>(payload),
                        .type = is_small ? FrameType::kMessage : FrameType::kRequest,
                        .dtype = static_cast<std::uint32_t>(next->descriptor.dtype)};
      if (!line.out.begin(frame, next->buffer)) return false;
      line.out.charge(room_of(payload));
      Ref<Message> message = line.messages.announce();
      if (is_small) {
        line.leaving = std::move(message);
        line.leaving_whole = payload;
      }
      return true;
    }
  }
  const auto* const cleared = line.messages.cleared();
  if (cleared == nullptr) return false;
  const auto& [id, message] = *cleared;
  const std::size_t slice = std::min(kMostSliceBytes, message->bytes - message->moved);
  if (!line.out.begin({.count = id,
                       .place = message->moved,
                       .bytes = static_cast<std::uint32_t>(slice),
                       .type = FrameType::kSlice},
                      message->buffer + message->moved)) {
    return false;
  }
  line.leaving = message;
  line.leaving_whole = message->moved + slice;
  return true;
}

void Messages::end_frame_to(Line& line) {
  Ref<Message> message = std::exchange(line.leaving, nullptr);
  message->moved = line.leaving_whole;
  if (message->moved < message->bytes) return;
  if (!line.messages.is_small(*message)) line.messages.end_cleared();
  end(std::move(message));
}

// ---- from a peer --------------------------------------------------------------------------------

bool Messages::wants_frames(const Peer& p) noexcept {
  const Line& line = this->line(p);
  return matching_.has_posted(p.who.rank) || line.messages.awaits_frames() || line.is_amid_frame;
}

bool Messages::receive_from(Peer& p) {
  Line& line = this->line(p);
  if (!line.in.is_open()) {
    if (!p.has_ring.load(std::memory_order_acquire)) return false;
    line.in.open(RingPlace::in(p.ring.data()));
  }
  const bool was_broken = failure_.is_broken();
  bool moved = false;
  for (std::size_t got = 0; got < kMostSliceBytes; moved = true) {
    if (!line.is_amid_frame) {
      if (!wants_frames(p) || !line.in.next(line.frame)) break;
      begin_frame(p);
      line.is_amid_frame = true;
      if (failure_.is_broken() != was_broken) return true;
      got += kFrameBytes;
    }
    if (line.in.left() > 0) {
      const std::size_t piece = line.in.read(line.incoming_to);
      if (piece == 0) break;
      line.incoming_to += piece;
      got += piece;
    }
    bells_.published_to(p.who.rank);  // there is room in the ring again
    if (line.in.left() > 0) continue;
    line.is_amid_frame = false;
    end_frame(p);
    if (failure_.is_broken() != was_broken) return true;
  }
  return moved;
}

// Chooses the destination of the payload.
void Messages::begin_frame(const Peer& p) {
  Line& line = this->line(p);
  const Frame& frame = line.frame;
  DL_CHECK(line.in.is_in_order() && frame.dtype < kDTypeCount && frame.bytes <= kMostMessageBytes,
           kInternal, "group '{}': {} wrote an invalid frame", peers_.group(), p.who.text());
  if (frame.type == FrameType::kMessage) {
    line.incoming_to = line.messages.begin_message(envelope_of(frame));
  } else if (frame.type == FrameType::kSlice) {
    line.incoming_to = line.messages.begin_slice(frame.count, frame.place, frame.bytes);
  } else {
    line.incoming_to = line.messages.begin_other(frame.bytes);
  }
}

void Messages::end_frame(const Peer& p) {
  Line& line = this->line(p);
  const Frame& frame = line.frame;
  switch (frame.type) {
    case FrameType::kMessage:
    case FrameType::kRequest:
      return settle(p, line.messages.end_message(envelope_of(frame)));
    case FrameType::kSlice:
      return settle(p, line.messages.end_slice(frame.count, frame.bytes));
    case FrameType::kClear:
      return line.messages.clear(frame.place);
  }
  matching_.throw_violation(p.who.rank, "wrote a frame of an unknown type");
}

void Messages::settle(const Peer& p, Conversation<Message>::Outcome outcome) {
  Line& line = this->line(p);
  if (outcome.credit > 0 && line.in.release(outcome.credit)) bells_.published_to(p.who.rank);
  if (outcome.clear) line.clears.push_back(*outcome.clear);
  if (outcome.received) end(std::move(outcome.received));
}

void Messages::end(Ref<Message> message) {
  std::erase(under_way_, message);
  queue_.note_message_over();
  ledger_.end(std::move(message), nullptr);
}

// ---- when it goes wrong -------------------------------------------------------------------------

void Messages::end_all(const std::exception_ptr& cause) noexcept {
  // After an invalid frame this rank reads no more.
  if (!under_way_.empty() && cause_of(cause).kind != ErrorKind::kInternal) take_what_has_come();
  queue_.take_messages(under_way_, taken_);
  taken_.clear();
  matching_.clear();
  for (Line& line : lines_) {
    line.clears.clear();
    line.leaving = nullptr;
    line.messages.drop(0);
    line.is_amid_frame = false;
  }
  for (Ref<Message>& message : std::exchange(under_way_, {})) {
    queue_.note_message_over();
    ledger_.end(std::move(message), cause);
  }
}

// Receives what peers had sent before this rank heard of the failure: these messages can still
// complete.
void Messages::take_what_has_come() noexcept try {
  for (Peer& p : peers_) {
    while (receive_from(p)) {
    }
  }
} catch (const std::exception&) {
  // The messages end with the known cause.
}

void Messages::look_for_gone() {
  if (failure_.is_broken()) return;
  std::vector<Peer*> gone;
  for (Peer& p : peers_) {
    if (p.is_gone.load(std::memory_order_acquire)) gone.push_back(&p);
  }
  // Messages that the peers wrote before they ended count: only what is missing then will never
  // come. Read all rings first, because a message from any source may be in the last one.
  for (Peer* const p : gone) {
    while (failure_.guard([&] { return receive_from(*p); }) && !failure_.is_broken()) {
    }
    if (failure_.is_broken()) return;
  }
  const bool is_alone = gone.size() + 1 == static_cast<std::size_t>(peers_.size());
  for (const Peer* const p : gone) {
    for (const Ref<Message>& message : under_way_) {
      if (message->peer == p->who.rank ||
          (message->peer == kAnySource && (!p->has_left() || is_alone))) {
        failure_.adopt_peers_cause();
        if (!failure_.is_broken()) failure_.fail(peers_.cause_of_end(*p, message->descriptor));
        return;
      }
    }
  }
}

}  // namespace dl::collectives::shm
