// Mesh: the authenticated connections of one rank to all others, from which a group is made.
//
// `data` carries the slices of collectives and may stall while this rank is behind. `side` carries
// messages, probes, goodbyes and aborts, and never stalls. Data has one or more connections
// (lanes): while a slice from one is copied out, the next lane can receive another.
#pragma once

#include <vector>

#include "collectives/algorithms/plan.h"
#include "collectives/call/identity.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives {
struct GroupOptions;
}

namespace dl::collectives::tcp {

struct Mesh {
  struct Peer {
    Identity who;
    std::vector<UniqueFd> data;  // lanes; `data` and `side` are empty for the rank itself
    UniqueFd side;
  };
  int rank = 0;
  Plan plan{};              // rank 0's
  std::vector<Peer> peers;  // by rank
};

// Listens, publishes the addresses in the store, accepts higher ranks and connects to lower ones.
// Throws kMismatch if a peer has another protocol version, world size or generation, and kTimeout
// naming the ranks that are missing.
Mesh connect_mesh(const GroupOptions& options);

}  // namespace dl::collectives::tcp
