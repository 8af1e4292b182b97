// Runs a job on the nodes of a SLURM allocation, from the user's line to dlrun's exit code. It is
// in dlrun-srun, which dlrun executes (hand_over.cc).
#pragma once

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Throws Error: kInvalidArgument for bad usage, another kind if something fails before srun is
// started. To be called before any thread exists.
int run_on_allocation(const Options& options, const SlurmAllocation& allocation, CommandLine line);

}  // namespace dl::launcher
