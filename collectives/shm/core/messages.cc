// Core's functions that send and receive messages, through one ring for each pair of ranks (sender,
// receiver) that has exchanged any.
//
// Conversation says which message comes next. A small message stays in the ring until its receiver
// looks for it, so that a send completes without its receiver. A rank that looks for a message also
// takes the messages before it out of the ring and keeps them.
#include <algorithm>
#include <utility>

#include "collectives/call/recording.h"
#include "collectives/shm/core/core.h"
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

void Core::submit(const Ref<Message>& message) {
  if (is_in_child()) throw_if_broken();
  at_exit_.stay_if_leaving();
  release_finished();
  throw_if_broken();
  const profiler::Span span = call_span(message->descriptor);
  const bool drives = take_role();
  try {
    const std::lock_guard lock(submit_mutex_);
    if (failure_.is_poisoned()) std::rethrow_exception(failure_.cause());
    if (has_left_) throw_left(message->descriptor);
    submitted_.push_back(message);
    Descriptor& d = message->descriptor;
    d.sequence = next_message_++;
    // Messages are numbered by each rank alone, so their hash means nothing to other ranks.
    message->slot = log_.begin(record_of(d, 0, message->peer));
    has_submitted_.store(true);
    messages_waiting_.fetch_add(1);
  } catch (...) {
    if (drives) give_role_back();
    throw;
  }
  if (drives) {
    step();
    // A rank that only sends may not come back, so wake with a full fence any peer that has fallen
    // asleep meanwhile.
    if (!has_operations()) protocol_.bells().settle();
    give_role_back();
  } else {
    // The driver may sleep.
    ring(peers_.own().bell);
  }
  // Never wake the thread at once: most callers come back to wait for the message, and the thread
  // would compete with them.
  if (!message->is_over()) arm_timer();
}

bool Core::advance_messages() {
  take_submitted();
  bool moved = false;
  const auto ranks = static_cast<std::size_t>(size());
  for (std::size_t i = 0; i < ranks && !failure_.is_poisoned(); ++i) {
    Peer& p = peers_[static_cast<int>((matching_.first_look() + i) % ranks)];
    if (wants_frames(p)) moved |= receive_from(p);
    if (line(p).has_to_write()) moved |= send_to(p);
  }
  return moved;
}

void Core::take_submitted() {
  if (!has_submitted_.load()) return;
  {
    const std::lock_guard lock(submit_mutex_);
    under_way_.insert(under_way_.end(), submitted_.begin(), submitted_.end());
    taken_.swap(submitted_);
    has_submitted_.store(false);
  }
  for (Ref<Message>& message : taken_) {
    if (failure_.is_poisoned()) break;
    start(std::move(message));
  }
  taken_.clear();
}

void Core::start(Ref<Message> message) {
  if (!message->is_send()) {
    if (const auto found = matching_.post(message)) {
      Peer& from = peers_[message->peer];
      settle(from, line(from).messages->take(message, *found));
    }
    return;
  }
  Peer& p = peers_[message->peer];
  if (p.is_gone.load(std::memory_order_acquire) || p.has_left()) {
    return fail(peers_.cause_of_end(p, message->descriptor));
  }
  line(p).messages->send(std::move(message));
}

// ---- to a peer ----------------------------------------------------------------------------------

// Returns false if the peer's socket does not accept the descriptor now: the peer is gone, or was
// stopped for long.
bool Core::open_ring_to(Peer& p) {
  Line& line = this->line(p);
  if (line.out_segment.data() == nullptr) {
    line.out_segment = Segment::make(kRingSegmentBytes);
    new (line.out_segment.data()) RingCounters();
  }
  const Note note{.kind = Note::Kind::kRing};
  if (!rendezvous::send_passing(p.socket.get(), std::as_bytes(std::span(&note, 1)),
                                line.out_segment.fd())) {
    return false;
  }
  line.out_segment.close_fd();
  line.out.open(RingPlace::in(line.out_segment.data()));
  return true;
}

bool Core::send_to(Peer& p) {
  Line& line = this->line(p);
  if (!line.out.is_open() && !open_ring_to(p)) return false;
  bool moved = false;
  for (std::size_t written = 0; written < kMostSliceBytes; moved = true) {
    if (line.out.left() == 0) {
      if (!begin_next_frame(p)) break;
      written += kFrameBytes;
      if (line.out.left() > 0) continue;  // the peer sees the frame with its first piece
    } else {
      const std::size_t piece = line.out.write(line.leaving->buffer + line.leaving->moved);
      if (piece == 0) break;
      line.leaving->moved += piece;
      written += piece;
    }
    protocol_.bells().published_to(p.who.rank);
    if (line.out.left() == 0 && line.leaving) end_frame_to(p);
  }
  return moved;
}

bool Core::begin_next_frame(Peer& p) {
  Line& line = this->line(p);
  if (!line.clears.empty()) {
    if (!line.out.begin({.place = line.clears.front(), .type = FrameType::kClear}, nullptr)) {
      return false;
    }
    line.clears.pop_front();
    return true;
  }
  if (const Message* const next = line.messages->next()) {
    const bool is_small = line.messages->is_small(*next);
    const std::size_t payload = is_small ? next->bytes : 0;
    if (line.out.may_charge(room_of(payload))) {
      const Frame frame{.count = next->descriptor.count,
                        .place = is_small ? 0 : line.messages->next_id(),
                        .tag = next->tag(),
                        .bytes = static_cast<std::uint32_t>(payload),
                        .type = is_small ? FrameType::kMessage : FrameType::kRequest,
                        .dtype = static_cast<std::uint32_t>(next->descriptor.dtype)};
      if (!line.out.begin(frame, next->buffer)) return false;
      line.out.charge(room_of(payload));
      Ref<Message> message = line.messages->announce();
      if (is_small) {
        line.leaving = std::move(message);
        line.leaving_whole = payload;
      }
      return true;
    }
  }
  const auto* const cleared = line.messages->cleared();
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

void Core::end_frame_to(Peer& p) {
  Line& line = this->line(p);
  const Ref<Message> message = std::exchange(line.leaving, nullptr);
  message->moved = line.leaving_whole;
  if (message->moved < message->bytes) return;
  if (!line.messages->is_small(*message)) line.messages->end_cleared();
  end_message(message);
}

// ---- from a peer --------------------------------------------------------------------------------

bool Core::receive_from(Peer& p) {
  Line& line = this->line(p);
  if (!line.in.is_open()) {
    if (!p.has_ring.load(std::memory_order_acquire)) return false;
    line.in.open(RingPlace::in(p.ring.data()));
  }
  const bool was_broken = failure_.is_poisoned();
  bool moved = false;
  for (std::size_t got = 0; got < kMostSliceBytes; moved = true) {
    if (!line.is_amid_frame) {
      if (!wants_frames(p) || !line.in.next(line.frame)) break;
      begin_frame(p);
      line.is_amid_frame = true;
      if (failure_.is_poisoned() != was_broken) return true;
      got += kFrameBytes;
    }
    if (line.in.left() > 0) {
      const std::size_t piece = line.in.read(line.incoming_to);
      if (piece == 0) break;
      line.incoming_to += piece;
      got += piece;
    }
    protocol_.bells().published_to(p.who.rank);  // there is room in the ring again
    if (line.in.left() > 0) continue;
    line.is_amid_frame = false;
    end_frame(p);
    if (failure_.is_poisoned() != was_broken) return true;
  }
  return moved;
}

// Chooses the destination of the payload.
void Core::begin_frame(Peer& p) {
  Line& line = this->line(p);
  const Frame& frame = line.frame;
  DL_CHECK(line.in.is_in_order() && frame.dtype < kDTypeCount && frame.bytes <= kMostMessageBytes,
           kInternal, "group '{}': {} wrote an invalid frame", name(), p.who.text());
  if (frame.type == FrameType::kMessage) {
    line.incoming_to = line.messages->begin_message(envelope_of(frame));
  } else if (frame.type == FrameType::kSlice) {
    line.incoming_to = line.messages->begin_slice(frame.count, frame.place, frame.bytes);
  } else {
    line.incoming_to = line.messages->begin_other(frame.bytes);
  }
}

void Core::end_frame(Peer& p) {
  Line& line = this->line(p);
  const Frame& frame = line.frame;
  switch (frame.type) {
    case FrameType::kMessage:
    case FrameType::kRequest:
      return settle(p, line.messages->end_message(envelope_of(frame)));
    case FrameType::kSlice:
      return settle(p, line.messages->end_slice(frame.count, frame.bytes));
    case FrameType::kClear:
      return line.messages->clear(frame.place);
  }
  matching_.throw_violation(p.who.rank, "wrote a frame of an unknown type");
}

void Core::settle(Peer& p, const Conversation<Message>::Outcome& outcome) {
  if (outcome.credit > 0) give_back(p, outcome.credit);
  if (outcome.clear) line(p).clears.push_back(*outcome.clear);
  if (outcome.received) end_message(outcome.received);
}

void Core::give_back(Peer& p, std::size_t bytes) noexcept {
  if (line(p).in.release(bytes)) protocol_.bells().published_to(p.who.rank);
}

void Core::end_message(const Ref<Message>& message) {
  std::erase(under_way_, message);
  messages_waiting_.fetch_sub(1);
  finish(message, nullptr);
}

// ---- when it goes wrong -------------------------------------------------------------------------

void Core::end_messages(const std::exception_ptr& cause) noexcept {
  {
    const std::lock_guard lock(submit_mutex_);
    under_way_.insert(under_way_.end(), submitted_.begin(), submitted_.end());
    submitted_.clear();
  }
  taken_.clear();
  matching_.clear();
  for (Peer& p : peers_) line(p).clear();
  for (Ref<Message>& message : std::exchange(under_way_, {})) {
    messages_waiting_.fetch_sub(1);
    finish(std::move(message), cause);
  }
}

// Receives what peers had sent before this rank heard of the failure: these messages can still
// complete.
void Core::take_what_has_come() noexcept try {
  for (Peer& p : peers_) {
    while (receive_from(p)) {
    }
  }
} catch (const std::exception&) {
  // The messages end with the known cause.
}

void Core::look_at_messages(Clock::time_point now) {
  if (failure_.is_poisoned()) return;
  std::vector<Peer*> gone;
  for (Peer& p : peers_) {
    if (p.is_gone.load(std::memory_order_acquire)) gone.push_back(&p);
  }
  // Messages that the peers wrote before they ended count: only what is missing then will never
  // come. Read all rings first, because a message from any source may be in the last one.
  for (Peer* const p : gone) {
    while (guarded([&] { return receive_from(*p); }) && !failure_.is_poisoned()) {
    }
    if (failure_.is_poisoned()) return;
  }
  const bool is_alone = gone.size() + 1 == static_cast<std::size_t>(size());
  for (const Peer* const p : gone) {
    for (const Ref<Message>& message : under_way_) {
      if (message->peer == p->who.rank ||
          (message->peer == kAnySource && (!p->has_left() || is_alone))) {
        failure_.adopt_peers_cause();
        if (!failure_.is_poisoned()) fail(peers_.cause_of_end(*p, message->descriptor));
        return;
      }
    }
  }
  for (const Ref<Message>& message : under_way_) {
    look_at_clock(*message, now);
    if (failure_.is_poisoned()) return;
  }
}

}  // namespace dl::collectives::shm
