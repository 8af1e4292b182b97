// Many small operations as one, so that their latency is paid once.
//
// CPU memory: the inputs are packed into one buffer, one operation runs on it, and the thread that
// waits copies the results to their outputs (finishing_work.h). GPU memory is not packed: NCCL
// takes several buffers in one operation, and a staged group runs the parts one after the other.
// All parts must have one dtype and one reduction, and all ranks must give the same list. The last
// bits of a sum may differ from those of single calls, because the order of additions depends on an
// element's place in the buffer. The bits are the same on all ranks and runs. Thread-safety:
// process_group.h.
#pragma once

#include <span>

#include "collectives/api/process_group.h"

namespace dl::collectives {

// `call` holds the options of the packed operation; the parts' own CallOptions are not used. An
// empty list is an operation on zero elements. Throw kInvalidArgument if dtypes or reductions
// differ.
Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const AllReduceOptions> parts,
                               const CallOptions& call = {});
Ref<Work> all_gather_coalesced(ProcessGroup& group, std::span<const AllGatherOptions> parts,
                               const CallOptions& call = {});
Ref<Work> reduce_scatter_coalesced(ProcessGroup& group, std::span<const ReduceScatterOptions> parts,
                                   const CallOptions& call = {});

}  // namespace dl::collectives
