// dlrun in a batch script, or below salloc: starts one dlrun on each node of the allocation by
// `srun`, and is their front.
//
//   dlrun (front) ── srun ─ ─ slurmstepd ── dlrun (a task of the step) ── ranks
//        └─────────── two connections of each task: what it writes ────┘
//
// srun's own output tears lines, so each task connects back, with the job's key, and writes its
// stdout and stderr there; the front writes whole lines. The key comes to the tasks on their
// standard input, which srun passes to each of them. Signals go the other way on the connections.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Runs the job to its end and returns dlrun's exit code: that of srun, which is the nodes'.
// `line`: dlrun's own arguments, for the tasks. Before any thread exists. Throws Error.
int run_front_of_srun(const Options& options, const SlurmAllocation& allocation,
                      const std::vector<std::string>& line);

}  // namespace dl::launcher
