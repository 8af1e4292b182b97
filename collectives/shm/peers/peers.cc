#include "collectives/shm/peers/peers.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "collectives/process/peer_process.h"
#include "collectives/shm/layout/ring.h"
#include "rendezvous/net/socket/local_socket.h"

namespace dl::collectives::shm {

std::string Peer::text_of_gone() const {
  return gone_text(who.text(), is_socket_held.load(std::memory_order_relaxed)
                                   ? "open, but its process has ended"
                                   : "closed");
}

Peers::Peers(Links links, std::string group)
    : rank_(links.rank),
      group_(std::move(group)),
      all_(links.peers.size()),
      passed_memories_(group_, size()) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    Links::Peer& from = links.peers[i];
    Peer& p = all_[i];
    p.who = std::move(from.who);
    p.segment = std::move(from.segment);
    p.block = reinterpret_cast<Block*>(p.segment.data());
    p.socket = std::move(from.socket);
    p.process = watch_process(p.who);
    is_oversubscribed_ |= p.block->is_oversubscribed;
  }
}

void Peers::close() noexcept {
  for (Peer& p : all_) p.socket.reset();
}

void Peers::send_note(Peer& p, Note::Kind kind) noexcept {
  if (!p.socket) return;
  const Note note{.kind = kind};
  // A peer that is gone, or was stopped so long that its buffer is full, needs no note.
  rendezvous::send_passing(p.socket.get(), std::as_bytes(std::span(&note, 1)));
}

void Peers::send_notes(Note::Kind kind) noexcept {
  for (Peer& p : all_) send_note(p, kind);
}

void Peers::pass_memory(std::uint32_t number, int fd) {
  const Note note{.kind = Note::Kind::kMemory, .number = number};
  for (const Peer& p : all_) {
    DL_CHECK(!p.socket ||
                 rendezvous::send_passing(p.socket.get(), std::as_bytes(std::span(&note, 1)), fd),
             kConnection, "group '{}': cannot pass a descriptor to {}: {}", group_, p.who.text(),
             std::strerror(errno));
  }
}

std::optional<Cause> Peers::read_notes(Peer& p) {
  std::optional<Cause> cause;
  for (;;) {
    Note note;
    rendezvous::Received received =
        rendezvous::receive_passing(p.socket.get(), std::as_writable_bytes(std::span(&note, 1)));
    if (received.ended) {
      set_gone(p);
      break;
    }
    if (received.lost_passed) {
      return Cause{.kind = ErrorKind::kIo, .text = text_of_lost_descriptor(group_, p.who, self())};
    }
    if (received.bytes != sizeof note) break;
    if (note.kind == Note::Kind::kProbe) send_note(p, Note::Kind::kReply);
    if (note.kind == Note::Kind::kReply) p.last_answer.store(Deadline::Clock::now());
    if (!received.passed) continue;
    // After a cause: takes what else has come, because operations may still wait for it.
    if (note.kind == Note::Kind::kRing) {
      std::optional<Cause> found = take_ring(p, std::move(received.passed));
      if (!cause) cause = std::move(found);
    }
    if (note.kind == Note::Kind::kMemory) {
      passed_memories_.add(p.who.rank, note.number, std::move(received.passed));
    }
  }
  return cause;
}

std::optional<Cause> Peers::note_gone(Peer& p) {
  std::optional<Cause> cause = read_notes(p);
  if (p.is_gone.load(std::memory_order_relaxed)) return cause;
  p.is_socket_held.store(true, std::memory_order_relaxed);
  set_gone(p);
  return cause;
}

void Peers::set_gone(Peer& p) noexcept {
  p.is_gone.store(true, std::memory_order_release);
  ring(own().bell);
}

std::optional<Cause> Peers::take_ring(Peer& p, UniqueFd fd) {
  if (p.has_ring.load(std::memory_order_relaxed)) return std::nullopt;
  try {
    p.ring = Segment::map(std::move(fd), kRingSegmentBytes);
  } catch (const Error& error) {
    return Cause{
        .kind = error.kind(),
        .text = fmt::format("group '{}': messages of {}: {}", group_, p.who.text(), error.what())};
  }
  p.has_ring.store(true, std::memory_order_release);
  ring(own().bell);
  return std::nullopt;
}

Cause Peers::cause_of_end(const Peer& p, const Descriptor& waiting) const {
  const std::uint64_t called = p.block->called.load();
  const std::string text =
      p.has_left() ? text_of_left(p.who.text(), group_, called,
                                  !row_of(waiting.op).is_message && called >= waiting.sequence)
                   : p.text_of_gone();
  return cause_in(waiting, ErrorKind::kPeerFailed, text, p.blame(), p.who.in_job());
}

std::optional<Cause> Peers::cause_of_gone() const {
  for (const Peer& p : all_) {
    if (p.has_left() || !p.is_gone.load(std::memory_order_acquire)) continue;
    return Cause{.kind = ErrorKind::kPeerFailed,
                 .blame = Blame::kGone,
                 .rank = p.who.in_job(),
                 .found_by = self().in_job(),
                 .text = p.text_of_gone()};
  }
  return std::nullopt;
}

}  // namespace dl::collectives::shm
