// StagedGroup: memory of a GPU through pinned memory and a CPU group of the same ranks.
//
// What there is where NCCL is not: each call waits for its stream, copies to the host, runs the CPU
// group's operation and copies back; it returns when all that is over, and no earlier. But messages
// go on without their caller, and what is received is on the GPU once its Work was waited for.
// Results are the CPU group's, bit for bit. Cannot be captured into a graph. Thread-safety:
// process_group.h.
#pragma once

#include "collectives/process_group.h"
#include "core/device/cuda/runtime.h"

namespace dl::collectives {

Ref<ProcessGroup> make_staged_group(Ref<ProcessGroup> host, cuda::Runtime& runtime);

}  // namespace dl::collectives
