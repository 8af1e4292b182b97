// Peers: the ranks of one group, and what this rank has heard of each.
//
// A value of the group's Core; used under its lock.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/waiting/judge/judge.h"

namespace dl::collectives::mpi {

struct Peer {
  Identity who;
  std::uint64_t last_called = 0;  // the last sequence number that this rank has heard of
  Deadline::Clock::time_point last_answer{};
  bool has_left = false;
};

class Peers {
 public:
  Peers(std::vector<Identity> ranks, int rank);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  const Peer& at(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& self() const noexcept { return at(rank_); }
  std::string name(int rank) const { return at(rank).who.text(); }

  void set_called(int rank, std::uint64_t sequence) noexcept;
  void set_answered(int rank) noexcept { peer(rank).last_answer = Deadline::Clock::now(); }
  void set_left(int rank) noexcept { peer(rank).has_left = true; }

  bool have_all_left() const noexcept;
  // A rank that left before it called this collective; null: there is none.
  const Peer* left_before(std::uint64_t sequence) const noexcept;
  // The other ranks, as an operation with these probes sees them.
  std::vector<PeerState> others(const ProbeSchedule& probes) const;

 private:
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }

  const int rank_;
  std::vector<Peer> peers_;
};

}  // namespace dl::collectives::mpi
