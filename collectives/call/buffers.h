// Checks of a call that every backend makes before it starts: pointers, overlap, roots and peers.
// Each throws kInvalidArgument (kDType for an undefined reduction) with the operation's name.
#pragma once

#include <cstddef>
#include <string_view>

#include "collectives/api/process_group.h"
#include "collectives/call/descriptor.h"

namespace dl::collectives {

void check_all_reduce(const AllReduceOptions& options);
void check_broadcast(const BroadcastOptions& options, int size);
void check_all_gather(const AllGatherOptions& options, int rank, int size);
void check_reduce_scatter(const ReduceScatterOptions& options, int rank, int size);
void check_reduce(const ReduceOptions& options, int rank, int size);

// Operations on parts, under the name of the v-variant or of its fixed-count form. They return the
// sum of the counts if every rank knows all counts.
std::size_t check_parts(OpKind op, const AllGathervOptions& options, int rank, int size);
std::size_t check_parts(OpKind op, const ReduceScattervOptions& options, int rank, int size);
void check_parts(OpKind op, const GathervOptions& options, int rank, int size);
void check_parts(OpKind op, const ScattervOptions& options, int rank, int size);
void check_parts(OpKind op, const AllToAllvOptions& options, int rank, int size);

// A receive may come from kAnySource.
void check_peer(const Descriptor& what, int peer, int rank, int size, const void* buffer);
// The stream must be the CPU's, and the byte count must fit. Throws kNotImplemented for other
// devices.
void check_call(const Descriptor& what, const CallOptions& call, std::string_view backend);
// check_peer and check_call of a send or a receive.
template <typename Options>
void check_message(OpKind op, const Options& o, int rank, int size, std::string_view backend) {
  const Descriptor what{.count = o.count, .op = op, .dtype = o.dtype};
  check_call(what, o.call, backend);
  check_peer(what, o.peer, rank, size, o.buffer);
}

}  // namespace dl::collectives
