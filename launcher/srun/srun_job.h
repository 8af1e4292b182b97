// A job on the nodes of a SLURM allocation, from the user's line to dlrun's exit code.
// In dlrun-srun; dlrun executes that (hand_over.cc).
#pragma once

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Throws Error: kInvalidArgument for bad usage, anything else for what goes wrong before srun is
// started. Before any thread exists.
int run_on_allocation(const Options& options, const SlurmAllocation& allocation, CommandLine line);

}  // namespace dl::launcher
