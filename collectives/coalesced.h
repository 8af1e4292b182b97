// Many small reductions as one: one latency instead of many.
//
// The inputs are packed into one buffer, reduced by one operation, and copied to their outputs by
// whoever waits (finishing_work.h); those of a GPU stay where they are, as NCCL takes several at
// once, and go one by one through the host. All must have one dtype and one reduction, and be the
// same list on all ranks. The last bits may differ from those of single calls, as a sum's order
// depends on where an element stands; they are the same on all ranks and runs. Thread-safety:
// process_group.h.
#pragma once

#include <span>

#include "collectives/process_group.h"

namespace dl::collectives {

// `call` is the one operation's; the parts' own are not used. An empty list is a reduction of no
// elements. Throws kInvalidArgument where dtypes or reductions differ.
Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const AllReduceOptions> parts,
                               const CallOptions& call = {});

}  // namespace dl::collectives
