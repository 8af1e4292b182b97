// HybridGroup: the ProcessGroup for several nodes with several ranks each (docs/protocol.md,
// "Collectives on several nodes").
//
// all_reduce, broadcast, all_gather and reduce_scatter of more than 64 KiB / (ranks - 1) are routed
// in slices: through shared memory inside a node, and over TCP between nodes. Slices overlap, and
// every rank carries its share (route/route.h). For an all_reduce a host sends 2 (h-1)/h times the
// buffer's bytes to the h-1 other hosts, which is the minimum. Everything else goes through a TCP
// group of all ranks: other operations, small ones, Order::kTree, and what must be rounded only
// once: sums, products and averages in half precision, and averages of integers. split() gives
// ranks of one node a shm group, ranks on pairwise different nodes a TCP group, and others a hybrid
// one. allocate_symmetric() gives memory that the ranks of a node share, which saves staging copies
// there; registered memory is treated like any other.
//
// If nodes have different numbers of ranks, the first rank of each carries all of its node's bytes.
// all_gather and reduce_scatter go through the TCP group then, and if the ranks of a node are not
// consecutive.
//
// A thread that waits for an operation drives it; otherwise a progress thread of the group takes
// over after a millisecond (hybrid/core.h). An operation may begin before earlier ones are over, so
// no two operations may use the same buffer at a time.
//
// Errors are those of process_group.h; texts name ranks by their numbers in the job and in this
// group. An error in an inner group breaks the whole group. A rank that stops inside an operation
// is named within a second of the deadline. Dropping a HybridGroup ends operations under way with
// kAborted on every rank. Thread-safety: process_group.h.
#pragma once

#include "collectives/api/process_group.h"
#include "collectives/join/group_options.h"

namespace dl::collectives {

// Collective: every rank calls it. Throws what make_tcp_group() and make_shm_group() throw.
Ref<ProcessGroup> make_hybrid_group(const GroupOptions& options);

}  // namespace dl::collectives
