// Many small operations as one: one latency instead of many.
//
// The inputs are packed into one buffer, one operation takes it, and the results are copied to
// their outputs by the thread that waits (finishing_work.h). GPU memory is not packed: NCCL takes
// several buffers at once, and through the host they go one by one. All parts must have one dtype
// and one reduction, and form the same list on all ranks. The last bits of a reduction may differ
// from those of single calls, because the order of a sum depends on an element's place; they are
// the same on all ranks and runs. Thread-safety: process_group.h.
#pragma once

#include <span>

#include "collectives/api/process_group.h"

namespace dl::collectives {

// `call` is for the one operation; the parts' own CallOptions are not used. An empty list is an
// operation on no elements. Throw kInvalidArgument if dtypes or reductions differ.
Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const AllReduceOptions> parts,
                               const CallOptions& call = {});
Ref<Work> all_gather_coalesced(ProcessGroup& group, std::span<const AllGatherOptions> parts,
                               const CallOptions& call = {});
Ref<Work> reduce_scatter_coalesced(ProcessGroup& group, std::span<const ReduceScatterOptions> parts,
                                   const CallOptions& call = {});

}  // namespace dl::collectives
