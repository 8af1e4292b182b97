// Runs a job on the nodes of a SLURM allocation, from the user's line to dlrun's exit code. It is
// in dlrun-srun, which dlrun executes (hand_over.cc).
#pragma once

#include <vector>

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Throws Error: kInvalidArgument for bad usage, another kind if something fails before srun is
// started. To be called before any thread exists.
int run_on_allocation(const Options& options, const SlurmAllocation& allocation, CommandLine line);

// The environment of dlrun's own srun. srun reads an option from each of some 80 variables, which
// sbatch sets for it, a user for another srun, or a site for all. Most of them contradict the line
// with which dlrun starts one agent a node.
//
// Removes the variables that srun would read. To be called before the warden, which starts srun.
void clear_environment_for_srun();
// The variables that clear_environment_for_srun() removes, and that tell programs about the job
// (SLURM_CPUS_PER_TASK): for the ranks, which then find them as in a batch script.
std::vector<Exported> told_to_ranks();

}  // namespace dl::launcher
