// ShmGroup: the ProcessGroup over shared memory, for ranks on one node (docs/protocol.md,
// "Collectives over shared memory").
//
// Every rank owns one segment that all others map. The others write nothing there, except to wake
// the owner. Small collectives (sums of up to 560 bytes, others of up to 1064) travel beside the
// flags, larger ones in chunks through the owner's slots. Messages go through a ring from the
// sender to the receiver, made with the first message.
//
// A thread that waits for an operation does its rank's share of the work itself and needs no other
// thread. Otherwise the group's progress thread does it: it takes up an operation after a
// millisecond, or at once if it had to take up earlier ones. Leave this thread a core of its own if
// communication shall overlap with computation. A waiting thread spins, then yields, then sleeps
// (wait_policy.h).
//
// Errors are those of process_group.h. A peer's death is noticed at once, because its socket
// closes; a stopped peer is named at the deadline. A rank that was stopped and continues after an
// error changes no data of the others: no rank writes into another rank's buffer, and symmetric
// memory is no longer shared after an error in an operation on it.
//
// A ShmGroup owns its segment and mappings of all others; none of them has a name in a file system.
// Dropping it ends operations under way with kAborted on every rank. Thread-safety:
// process_group.h.
#pragma once

#include "collectives/api/process_group.h"
#include "collectives/join/group_options.h"

namespace dl::collectives {

// Reserves the memory that a rank brings into a group, so that it knows whether it has enough
// before all ranks agree to share theirs. Throws kIo.
Ref<SegmentLease> reserve_shm_segment();

// Collective: every rank calls it. Throws kTimeout (names the missing ranks), kMismatch (protocol
// version, world size, generation), kAuthentication, kConnection (two ranks cannot reach each
// other: other nodes, or other network namespaces), kIo (no memory), kInvalidArgument.
Ref<ProcessGroup> make_shm_group(const GroupOptions& options);

}  // namespace dl::collectives
