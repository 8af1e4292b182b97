// ShmGroup: the ProcessGroup over shared memory, for ranks on one node (docs/protocol.md,
// "Collectives over shared memory").
//
// Every rank owns one segment that all others map, and writes only into that and into its own
// buffers. Collectives run there: up to a KiB beside the flags, more in chunks through the
// owner's slots. Messages go through a ring from the sender to the receiver, which is made with the
// first of them.
//
// Who works: whoever waits for an operation does its share of the work itself, on its own thread,
// and then needs no other. An operation for which nobody waits is carried on by the group's
// progress thread, which takes it up after a millisecond, or at once where earlier operations had
// to be taken up; give that thread a core of its own where communication shall hide behind
// computation. A thread that waits spins, then gives its core to others, then sleeps
// (wait_policy.h).
//
// Errors are those of process_group.h. A peer's death is noticed at once, as its socket closes; a
// stopped one is named at the deadline. Since no rank writes into a buffer of another, one that was
// stopped and goes on after an error changes no byte of the others.
//
// A ShmGroup owns its segment and a share in those of all others; nothing of them has a name in a
// file system. Dropping it ends operations under way with kAborted on every rank. Thread-safety:
// process_group.h.
#pragma once

#include "collectives/group_options.h"
#include "collectives/process_group.h"

namespace dl::collectives {

// The memory that a rank brings into a group, so that it knows whether it has any before all agree
// to share theirs. Throws kIo.
Ref<RefCounted> reserve_shm_segment();

// Collective: every rank calls it. Throws kTimeout (names who is missing), kMismatch (protocol
// version, world size, generation), kAuthentication, kConnection (no way between two ranks: other
// nodes, or other network namespaces), kIo (no memory), kInvalidArgument.
Ref<ProcessGroup> make_shm_group(const GroupOptions& options);

}  // namespace dl::collectives
