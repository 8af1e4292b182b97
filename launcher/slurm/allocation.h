// What SLURM says of this process: its allocation, and the step that it is a task of. Read from the
// environment once; values, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dl::launcher {

struct SlurmHost {
  std::string name;
  int cpus = 0;  // allocated; 0: SLURM does not say
};

// A job's resources: of `sbatch`, `salloc`, or of a lone `srun`.
struct SlurmAllocation {
  std::string job;  // "4711"
  std::vector<SlurmHost> hosts;
};

// A step of `srun` with several nodes, and this process as one of its tasks.
struct SlurmStep {
  std::string job;
  std::string step;
  std::vector<std::string> hosts;
  int node = 0;   // SLURM_NODEID, an index into hosts
  int tasks = 1;  // of the step
  bool one_task_a_node = true;

  std::string id() const { return job + "." + step; }  // "4711.0"
  // "slurm-4711.0": the same on all nodes, and no other step's.
  std::string name() const;
  // Where the first node's dlrun listens: the same on all nodes. The port is from 10000 to 14999,
  // below those that dlrun chooses at random; jobs with numbers that follow each other have
  // different ones.
  std::string endpoint() const;
  // Where it gives out the job's key (step_key.h): 5000 above.
  std::string key_endpoint() const;
};

// nullopt: not under SLURM, or in a step (srun). In a batch script or below salloc.
// Throws Error{kInvalidArgument} with a sentence if SLURM's variables contradict each other.
std::optional<SlurmAllocation> slurm_allocation();

// nullopt: this process is no task of a step, or a rank of dlrun has started it.
std::optional<SlurmStep> slurm_step();

}  // namespace dl::launcher
