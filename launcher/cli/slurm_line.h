// What a line leaves out when `srun` starts it, one dlrun a node: taken from the step.
#pragma once

#include <chrono>
#include <optional>

#include "launcher/cli/options.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Sets nnodes, node_rank, rdzv_endpoint and rdzv_id, as far as the line does not say them, if this
// process is a task of a step with several nodes. A line with a --node-rank is left alone.
// `says_nnodes`: the line, or PET_NNODES. Throws Error{kInvalidArgument}: several tasks on a node,
// each of which would be a node of the job; another --nnodes than the step has.
void take_slurm_step(Options& options, bool says_nnodes);

// The allocation whose nodes this line means, if they need an srun: the line names no nodes, stands
// in a batch script or below salloc, and the allocation has several nodes or is elsewhere.
std::optional<SlurmAllocation> needs_srun(const Options& options);

// One dlrun a node, all of which srun has started: whether the first one has to say what key they
// meet with (step_key.h), as the line names none.
bool needs_step_key(const Options& options);

// When --preempt-before says that the ranks are asked to save; nullopt: never, or --dry-run. Runs
// squeue, and throws as end_of_slurm_job().
std::optional<std::chrono::system_clock::time_point> time_of_preemption(const Options& options);

}  // namespace dl::launcher
