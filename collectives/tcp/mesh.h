// Mesh: the proved connections of one rank to all others, before a group is made of them.
//
// `data` carries the slices of collectives and may stand still while this rank is behind; `side`
// carries messages, probes, goodbyes and aborts and never does. Data has several connections
// ("lanes"): while one of them holds a slice that is being copied out, the next can take one in.
#pragma once

#include <vector>

#include "collectives/algorithms/plan.h"
#include "collectives/identity.h"
#include "core/base/unique_fd.h"

namespace dl::collectives {
struct GroupOptions;
}

namespace dl::collectives::tcp {

struct Mesh {
  struct Peer {
    Identity who;
    std::vector<UniqueFd> data;  // lanes; none, and no side, for the rank itself
    UniqueFd side;
  };
  int rank = 0;
  Plan plan{};              // rank 0's
  std::vector<Peer> peers;  // by rank
};

// Listens, publishes where in the store, accepts the ranks above and connects to those below.
// Throws kMismatch where a peer has another protocol version, world size or generation, and
// kTimeout with the ranks that are missing.
Mesh connect_mesh(const GroupOptions& options);

}  // namespace dl::collectives::tcp
