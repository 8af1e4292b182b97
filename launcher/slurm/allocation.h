// SLURM's facts about this process: its allocation, and the step of which it is a task. They are
// read from the environment once; values, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dl::launcher {

struct SlurmHost {
  std::string name;
  int cpus = 0;  // number of allocated CPUs; 0: SLURM does not tell
};

// The resources of a job: of `sbatch`, of `salloc`, or of a single `srun`.
struct SlurmAllocation {
  std::string job;  // "4711"
  std::vector<SlurmHost> hosts;
  // The tasks of each host; empty if the job has not asked for tasks. SLURM then counts them all
  // the same, for example one for each CPU of an exclusive node.
  std::vector<int> tasks;
};

// A step of `srun` with several nodes, and this process as one of its tasks.
struct SlurmStep {
  std::string job;
  std::string step;
  std::vector<std::string> hosts;
  int node = 0;   // SLURM_NODEID, an index into hosts
  int tasks = 1;  // number of tasks of the step
  bool one_task_a_node = true;

  std::string id() const { return job + "." + step; }  // "4711.0"
  // "slurm-4711.0": equal on all nodes, and different for each step.
  std::string name() const;
  // The endpoint at which the first node's dlrun listens; equal on all nodes. The port is from
  // 10000 to 14999, below those that dlrun chooses at random. Jobs with consecutive numbers have
  // different ports.
  std::string endpoint() const;
  // The endpoint at which the first node gives out the job's key (step_key.h): a port 5000 above.
  std::string key_endpoint() const;
};

// The allocation, in a batch script or below salloc, also in the step in which salloc starts a
// shell on a node. nullopt: not under SLURM, or in another step (srun). Throws
// Error{kInvalidArgument} with a sentence if SLURM's variables contradict each other.
std::optional<SlurmAllocation> slurm_allocation();

// The allocation, if it is more than this host alone: its nodes are reached by srun.
std::optional<SlurmAllocation> allocation_by_srun();

// The step; nullopt if this process is no task of a step, or a rank of dlrun has started it.
std::optional<SlurmStep> slurm_step();

}  // namespace dl::launcher
