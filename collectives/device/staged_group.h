// StagedGroup: moves GPU memory through pinned host memory and a CPU group of the same ranks.
//
// Used if NCCL is not available. A collective waits for its stream, copies the input to the host,
// runs the CPU group's operation and copies the result back; it returns when all this is done.
// Messages do not block their caller, and received data is on the GPU after a wait for its Work.
// Results have the same bits as the CPU group's. Calls cannot be captured into a graph.
// Thread-safety: process_group.h.
#pragma once

#include "collectives/api/process_group.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::collectives {

Ref<ProcessGroup> make_staged_group(Ref<ProcessGroup> host, cuda::Runtime& runtime);

}  // namespace dl::collectives
