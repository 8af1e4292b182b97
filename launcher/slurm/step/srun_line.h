// dlrun's own srun, which starts one task on each node of an allocation: its line and its
// environment.
//
// srun reads an option from each of some 80 variables, which sbatch sets for it, a user for another
// srun, or a site for all. Most of them contradict the line with which dlrun starts a task a node.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace dl::launcher {

// The words up to the program: one task a node, beside other steps, with all that the job has
// there. Throws Error: kNotFound if there is no srun.
std::vector<std::string> srun_line(std::size_t nodes);
// These words for a step on `hosts` alone, which are nodes of the allocation.
std::vector<std::string> srun_line(const std::vector<std::string>& hosts);

// This process's environment without the variables that srun would read: NAME=VALUE.
std::vector<std::string> environment_for_srun();
// Removes them from this process. To be called before the warden, which starts srun.
void clear_environment_for_srun();
// The removed variables that tell programs about the job (SLURM_CPUS_PER_TASK), by name and value.
// The ranks get them back, as in a batch script.
std::vector<std::pair<std::string, std::string>> told_to_ranks();

}  // namespace dl::launcher
