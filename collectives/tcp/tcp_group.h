// TcpGroup: the ProcessGroup over TCP (docs/protocol.md, "Collectives over TCP").
//
// Every rank has a side link and one or more lanes for data to every other rank (mesh.h),
// authenticated by the handshake of rendezvous/net. A plan chooses each operation's algorithm
// (plan.h). Sums, products and averages in half precision, and averages of integers, travel as
// unreduced shares, which are summed once in a wider type. A thread that waits for an operation
// drives it; otherwise the engine's thread does (wait_policy.h, tcp/core/engine.h). Leave this
// thread a core of its own if communication shall overlap with computation.
//
// A TcpGroup owns its connections and a share of its engine. Dropping it says goodbye and blocks
// for at most 1 s, until the peers' kernels have everything that was sent. Operations under way end
// with kAborted on every rank.
#pragma once

#include "collectives/api/process_group.h"
#include "collectives/join/group_options.h"

namespace dl::collectives {

// The progress thread, for all TCP groups of a process; made once, near main().
Ref<TcpEngine> make_tcp_engine();

// Collective: every rank calls it. Throws kTimeout (names the missing ranks), kMismatch (protocol
// version, world size, generation), kAuthentication, kConnection, kInvalidArgument.
Ref<ProcessGroup> make_tcp_group(const GroupOptions& options);

}  // namespace dl::collectives
