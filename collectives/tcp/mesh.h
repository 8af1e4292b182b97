// Mesh: the proved connections of one rank to all others, before a group is made of them.
//
// Two a peer: `data` carries the slices of collectives and may stand still while this rank is
// behind; `side` carries messages, probes, goodbyes and aborts and never does.
#pragma once

#include <vector>

#include "collectives/identity.h"
#include "core/base/unique_fd.h"

namespace dl::collectives {
struct TcpGroupOptions;
}

namespace dl::collectives::tcp {

struct Mesh {
  struct Peer {
    Identity who;
    UniqueFd data;  // both without a descriptor for the rank itself
    UniqueFd side;
  };
  int rank = 0;
  std::vector<Peer> peers;  // by rank
};

// Listens, publishes where in the store, accepts the ranks above and connects to those below.
// Throws kMismatch where a peer has another protocol version, world size or generation, and
// kTimeout with the ranks that are missing.
Mesh connect_mesh(const TcpGroupOptions& options);

}  // namespace dl::collectives::tcp
