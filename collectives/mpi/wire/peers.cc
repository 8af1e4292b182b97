#include "collectives/mpi/wire/peers.h"

#include <algorithm>

namespace dl::collectives::mpi {

Peers::Peers(std::vector<Identity> ranks, int rank) : rank_(rank) {
  for (Identity& who : ranks) peers_.push_back({.who = std::move(who)});
}

void Peers::set_called(int rank, std::uint64_t sequence) noexcept {
  peer(rank).last_called = std::max(at(rank).last_called, sequence);
}

bool Peers::have_all_left() const noexcept {
  return std::ranges::all_of(peers_,
                             [this](const Peer& p) { return p.has_left || p.who.rank == rank_; });
}

const Peer* Peers::left_before(std::uint64_t sequence) const noexcept {
  const auto found = std::ranges::find_if(
      peers_, [&](const Peer& p) { return p.has_left && p.last_called < sequence; });
  return found == peers_.end() ? nullptr : &*found;
}

std::vector<PeerState> Peers::others(const ProbeSchedule& probes) const {
  std::vector<PeerState> others;
  for (const Peer& p : peers_) {
    if (p.who.rank == rank_) continue;
    others.push_back(
        {.who = &p.who,
         .presence = p.has_left ? PeerState::Presence::kLeft : PeerState::Presence::kHere,
         .contact = probes.are_unanswered(p.last_answer) ? Contact::kSilent : Contact::kAnswers,
         .last_called = p.last_called});
  }
  return others;
}

}  // namespace dl::collectives::mpi
