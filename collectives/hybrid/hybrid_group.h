// HybridGroup: the ProcessGroup for several nodes with several ranks each (docs/protocol.md,
// "Collectives on several nodes").
//
// all_reduce, broadcast, all_gather and reduce_scatter of more than a few KiB go through shared
// memory inside a node and over TCP between nodes, every rank carrying its share, in slices that
// overlap (hybrid/route.h). A host sends 2 (h-1)/h times an all_reduce's bytes to the h-1 others,
// as few as can be. Everything else goes through a TCP group of all ranks: the other operations,
// small ones, sums in half precision and averages of integers (which are rounded once), and
// Order::kTree. split() gives ranks of one node a shm group, ranks that are all on different nodes
// a TCP group, and others a hybrid one. allocate_symmetric() gives memory that the ranks of each
// node share, and whose bytes need no copy in between there; registered memory is as any other.
//
// Where nodes have different numbers of ranks the first rank of each carries all of its node's
// bytes; all_gather and reduce_scatter go through the TCP group there, and where the ranks of a
// node do not follow each other.
//
// Who works: whoever waits for an operation, else a progress thread of the group, which takes over
// after a millisecond (hybrid/core.h). An operation may begin before those that were called earlier
// are over: a buffer belongs to one at a time.
//
// Errors are those of process_group.h; texts name ranks by their number in this group. An error in
// an inner group breaks the whole. A rank that stops inside an operation is named within a second
// of the deadline. Dropping a HybridGroup ends operations under way with kAborted on every rank.
// Thread-safety: process_group.h.
#pragma once

#include "collectives/group_options.h"
#include "collectives/process_group.h"

namespace dl::collectives {

// Collective: every rank calls it. Throws what make_tcp_group() and make_shm_group() throw.
Ref<ProcessGroup> make_hybrid_group(const GroupOptions& options);

}  // namespace dl::collectives
