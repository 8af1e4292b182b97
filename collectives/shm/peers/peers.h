// Peers: what one rank knows of all ranks of its group: who they are, their segments, and whether
// they are still there. It also sends and reads the notes on their sockets.
//
// Owned by the Core. All is constant from construction to close(), except the fields that the
// progress thread writes. Other threads read these through atomics. Notes may be sent by any
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/shm/layout/layout.h"
#include "collectives/shm/peers/passed_memories.h"
#include "collectives/shm/segment/links.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/judge/judge.h"

namespace dl::collectives::shm {

// A rank of the group, this rank included.
struct Peer {
  Identity who;
  Segment segment;
  Block* block = nullptr;
  UniqueFd socket;  // for the progress thread; empty for the rank itself
  // A pidfd, readable when the process has ended; empty if this rank cannot see the process.
  UniqueFd process;

  // Written by the progress thread.
  std::atomic<bool> is_gone{false};  // its socket has closed, or its process has ended
  // its process has ended, but a forked child keeps its socket open
  std::atomic<bool> is_socket_held{false};
  std::atomic<Deadline::Clock::time_point> last_answer{};
  Segment ring;                       // of its messages to this rank; written before
  std::atomic<bool> has_ring{false};  // this flag

  Presence presence() const noexcept { return block->presence.load(std::memory_order_acquire); }
  bool has_left() const noexcept { return presence() == Presence::kLeft; }
  // If it has left or is gone.
  Blame blame() const noexcept { return has_left() ? Blame::kLeft : Blame::kGone; }
  std::string text_of_gone() const;
};

class Peers {
 public:
  Peers(Links links, std::string group);
  // Closes the sockets; peers that wait for this rank check it then.
  void close() noexcept;

  const std::string& group() const noexcept { return group_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(all_.size()); }
  Peer& operator[](int rank) noexcept { return all_[static_cast<std::size_t>(rank)]; }
  const Peer& operator[](int rank) const noexcept { return all_[static_cast<std::size_t>(rank)]; }
  auto begin() noexcept { return all_.begin(); }
  auto end() noexcept { return all_.end(); }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }
  const Identity& self() const noexcept { return (*this)[rank_].who; }
  Block& own() const noexcept { return *(*this)[rank_].block; }
  // True if ranks outnumber cores; the same on all ranks.
  bool is_oversubscribed() const noexcept { return is_oversubscribed_; }

  void send_note(Peer& p, Note::Kind kind) noexcept;
  void send_notes(Note::Kind kind) noexcept;  // to all others
  // Sends this rank's part of a symmetric memory to all others. Throws kConnection.
  void pass_memory(std::uint32_t number, int fd);
  PassedMemories& passed_memories() noexcept { return passed_memories_; }

  // Progress thread: takes what has arrived at the peer's socket, and answers probes. Returns why
  // the group breaks, if it does.
  std::optional<Cause> read_notes(Peer& p);
  // Progress thread: the peer's process has ended.
  std::optional<Cause> note_gone(Peer& p);

  // The other ranks, as an operation sees them. `needs(rank)`: whether it waits for data of that
  // rank.
  template <typename Needs>
  std::vector<PeerState> others(const ProbeSchedule& probes, const Needs& needs) const;
  // The cause for an operation that waits for a peer that has left or is gone.
  Cause cause_of_end(const Peer& p, const Descriptor& waiting) const;
  // The first rank that is gone, if any.
  std::optional<Cause> cause_of_gone() const;

 private:
  std::optional<Cause> take_ring(Peer& p, UniqueFd fd);
  void set_gone(Peer& p) noexcept;

  const int rank_;
  const std::string group_;
  std::vector<Peer> all_;
  bool is_oversubscribed_ = false;
  PassedMemories passed_memories_;
};

template <typename Needs>
std::vector<PeerState> Peers::others(const ProbeSchedule& probes, const Needs& needs) const {
  const auto presence = [](const Peer& p) {
    if (p.has_left()) return PeerState::Presence::kLeft;
    return p.is_gone.load(std::memory_order_acquire) ? PeerState::Presence::kGone
                                                     : PeerState::Presence::kHere;
  };
  std::vector<PeerState> others;
  for (const Peer& p : all_) {
    if (p.who.rank == rank_) continue;
    const bool is_silent = probes.are_unanswered(p.last_answer);
    others.push_back({.who = &p.who,
                      .presence = presence(p),
                      .contact = is_silent ? Contact::kSilent : Contact::kAnswers,
                      .last_called = p.block->called.load(std::memory_order_acquire),
                      .is_needed = needs(p.who.rank)});
  }
  return others;
}

}  // namespace dl::collectives::shm
