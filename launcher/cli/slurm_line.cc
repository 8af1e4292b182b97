#include "launcher/cli/slurm_line.h"

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/slurm/allocation.h"
#include "launcher/slurm/commands.h"

namespace dl::launcher {

void take_slurm_step(Options& options, bool says_nnodes) {
  if (options.where.node_rank || (says_nnodes && options.where.nnodes == 1)) return;
  const auto step = slurm_step();
  if (!step || step->tasks == 1) return;
  // For an mpirun that runs inside the step, one_of_several_jobs() decides.
  for (const env::Var size : {env::Var::kOmpiSize, env::Var::kPmiSize}) {
    if (const auto ranks = env::get_int(size); ranks && *ranks != step->tasks) return;
  }
  DL_CHECK(step->one_task_a_node, kInvalidArgument,
           "this is one of {} tasks of an srun that starts several on a node: start one dlrun a "
           "node: srun --ntasks-per-node=1, or leave srun out. For {} jobs of their own: "
           "--standalone",
           step->tasks, step->tasks);
  const int nodes = static_cast<int>(step->hosts.size());
  DL_CHECK(nodes == step->tasks, kInvalidArgument,
           "SLURM_STEP_NODELIST has {} nodes, but SLURM_STEP_NUM_TASKS is {}; is SLURM's "
           "environment passed on from another job?",
           nodes, step->tasks);
  DL_CHECK(!says_nnodes || options.where.nnodes == nodes, kInvalidArgument,
           "--nnodes is {}, but this step of srun has {} nodes; leave it out, or say srun "
           "--nodes={}",
           options.where.nnodes, nodes, options.where.nnodes);
  options.where.nnodes = nodes;
  options.where.slurm_step = step->id();
  options.where.node_rank = step->node;
  if (options.meet.rdzv_endpoint.empty() &&
      !(options.meet.master_port && !options.meet.master_addr.empty())) {
    options.meet.rdzv_endpoint = step->endpoint();
  }
  if (options.meet.rdzv_id.empty()) options.meet.rdzv_id = step->name();
}

void take_slurm_allocation(Options& options) {
  const bool has_address = !options.meet.rdzv_endpoint.empty() || !options.meet.master_addr.empty();
  if (options.where.nnodes == 1 || options.where.node_rank || has_address) return;
  const auto allocation = slurm_allocation();
  if (!allocation) return;
  const int nodes = static_cast<int>(allocation->hosts.size());
  DL_CHECK(options.where.nnodes == nodes, kInvalidArgument,
           "--nnodes is {}, but the allocation of SLURM's job {} has {} node{}; leave it out, or "
           "ask sbatch or salloc for --nodes={}",
           options.where.nnodes, allocation->job, nodes, nodes == 1 ? "" : "s",
           options.where.nnodes);
  options.where.nnodes = 1;  // each node's dlrun is told the number by the frontend
  options.where.says_nodes = false;
}

void take_slurm_tasks(Options& options, bool says_nnodes) {
  // `--nnodes 1` names the node of an allocation of one.
  const bool names_nodes = options.where.says_nodes;
  if (names_nodes && !(says_nnodes && options.where.nnodes == 1)) return;
  const auto allocation = slurm_allocation();
  if (!allocation || allocation->tasks.empty()) return;
  if (names_nodes && allocation->hosts.size() > 1) return;
  for (std::size_t i = 0; i < allocation->tasks.size(); ++i) {
    DL_CHECK(allocation->tasks[i] > 0, kInvalidArgument,
             "{} has no task for {}; give the number of ranks in --nproc-per-node",
             env::name_of(env::Var::kSlurmTasksPerNode), allocation->hosts[i].name);
  }
  options.where.slurm_tasks = allocation->tasks;
  options.job.nproc_per_node = std::to_string(allocation->tasks.front());
}

std::optional<SlurmAllocation> needs_srun(const Options& options) {
  if (options.where.says_nodes) return std::nullopt;
  return allocation_by_srun();
}

bool needs_step_key(const Options& options) {
  const bool has_key = !options.meet.key_file.empty() || env::is_set(env::Var::kKeyFd) ||
                       env::is_set(env::Var::kKeyFile);
  return !options.where.slurm_step.empty() && !has_key;
}

std::optional<std::chrono::system_clock::time_point> time_of_preemption(const Options& options) {
  if (!options.end.preempt_before || options.output.dry_run) return std::nullopt;
  const auto end = end_of_slurm_job(env::get(env::Var::kSlurmJobId).value_or(""));
  if (!end) return std::nullopt;
  return *end - *options.end.preempt_before;
}

}  // namespace dl::launcher
