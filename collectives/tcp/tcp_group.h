// TcpGroup: the ProcessGroup over TCP (docs/protocol.md, "Collectives over TCP").
//
// Every rank holds two connections to every other, proved by the handshake of rendezvous/net. Sums
// travel around a ring, small operations in one exchange; half precision and integer averages as
// raw shares that are summed wide, once. Who works while an operation runs: whoever waits for it,
// else the engine's thread (wait_policy.h, tcp/engine.h); give that thread a core of its own where
// communication shall hide behind computation.
//
// A TcpGroup owns its connections and a share of its engine. Dropping it says goodbye: it blocks
// until the peers' kernels have everything that was sent, at most 1 s; operations under way end
// with kAborted on every rank. Thread-safety: process_group.h.
#pragma once

#include "collectives/group_options.h"
#include "collectives/process_group.h"

namespace dl::collectives {

// What the groups of one process share: the progress thread. Opaque; made once, near main().
Ref<RefCounted> make_tcp_engine();

// Collective: every rank calls it. Throws kTimeout (names who is missing), kMismatch (protocol
// version, world size, generation), kAuthentication, kConnection, kInvalidArgument.
Ref<ProcessGroup> make_tcp_group(const GroupOptions& options);

}  // namespace dl::collectives
