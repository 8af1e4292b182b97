// Takes from the step what a line leaves out if `srun` starts one dlrun on each node, and refuses
// an `srun` or `mpirun` that starts several.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher {

// Sets nnodes, node_rank, rdzv_endpoint and rdzv_id if the line does not give them and this process
// is a task of a step with several nodes. Changes nothing if the line has a --node-rank.
// `says_nnodes`: the line, or PET_NNODES, gives the number of nodes. Throws Error{kInvalidArgument}
// if a node has several tasks, each of which would be a node of the job, or if --nnodes differs
// from the step's.
void take_slurm_step(Options& options, bool says_nnodes);

// A line in an allocation that gives the number of its nodes and no address runs on these nodes, as
// one without the number: changes `options` so. Throws Error{kInvalidArgument} if the allocation
// has another number.
void take_slurm_allocation(Options& options);

// If the job has asked SLURM for tasks (--ntasks-per-node, --ntasks), the tasks of each node of the
// allocation are its ranks, as with mpirun. To be called if nothing else gives their number, after
// take_slurm_allocation(). Changes nothing if the line names other nodes than the allocation's.
void take_slurm_tasks(Options& options, bool says_nnodes);

// The allocation on whose nodes this line runs, if they need an srun: the line names no nodes, is
// in a batch script or below salloc, and the allocation has several nodes or is elsewhere.
std::optional<SlurmAllocation> needs_srun(const Options& options);

// Whether srun or mpirun has started several copies of dlrun: returns a sentence that says so and
// gives the line that starts one job instead; empty if dlrun was started once. To be called only
// for a job of one node: then each copy would run the whole job.
std::string one_of_several_jobs();

// True if srun has started one dlrun on each node and the line names no key: then the first node
// tells the others which key they use (step_key.h).
bool needs_step_key(const Options& options);

// The time at which --preempt-before asks the ranks to save; nullopt: never, or --dry-run. Runs
// squeue. Throws what end_of_slurm_job() throws.
std::optional<std::chrono::system_clock::time_point> time_of_preemption(const Options& options);

}  // namespace dl::launcher
