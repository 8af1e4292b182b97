// The environment of dlrun's own srun. srun reads an option from each of some 80 variables, which
// sbatch sets for it, a user for another srun, or a site for all. Most of them contradict the line
// with which dlrun starts one agent a node.
#pragma once

#include <vector>

#include "launcher/cli/options.h"

namespace dl::launcher {

// The variables that clear_environment_for_srun() removes, and that tell programs about the job
// (SLURM_CPUS_PER_TASK): for the ranks, which then find them as in a batch script.
std::vector<Exported> told_to_ranks();

// Removes the variables that srun would read. To be called before the warden, which starts srun.
void clear_environment_for_srun();

}  // namespace dl::launcher
