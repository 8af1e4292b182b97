// Runs a job on the nodes of a SLURM allocation, from the user's line to dlrun's exit code. It is
// in dlrun-srun, which dlrun executes (hand_over.cc).
//
// One step of srun (slurm/step/srun_line.h) starts an agent on each node, and the agents connect
// back (srun_step.h). This process has no ranks itself: it shows their output, and ends them. What
// srun_line.h removes from the environment for srun's sake, the ranks get all the same.
#pragma once

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Returns dlrun's exit code. Throws Error: kInvalidArgument for bad usage, another kind if
// something fails before srun is started. To be called once, before any thread exists: it changes
// the environment of this process.
int run_on_allocation(const Options& options, const SlurmAllocation& allocation, CommandLine line);

}  // namespace dl::launcher
