#include "launcher/srun/srun_job.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/plan/plan.h"
#include "launcher/process/start/program.h"
#include "launcher/remote/remote.h"
#include "launcher/remote/ssh/ssh.h"
#include "launcher/slurm/hostlist.h"
#include "launcher/slurm/slurm_conf.h"
#include "launcher/srun/srun_step.h"
#include "launcher/srun/srun_task.h"

namespace dl::launcher {
namespace {

// The nodes of an allocation. SLURM's tasks or --nproc-per-node count the ranks of each; the latter
// may be a word that only the node itself can count.
class AllocatedHosts : public HostSource {
 public:
  AllocatedHosts(const Options& options, const SlurmAllocation& allocation)
      : options_(options), allocation_(allocation) {}

  std::vector<Host> hosts() const override {
    const int nodes = static_cast<int>(allocation_.hosts.size());
    DL_CHECK(options_.job.np.value_or(0) % nodes == 0, kInvalidArgument,
             "--np is {}, and the {} nodes of SLURM's allocation cannot share that many ranks "
             "equally; give each its number in --nproc-per-node",
             *options_.job.np, nodes);
    const std::string& each = options_.job.nproc_per_node;
    int slots = each.find_first_not_of("0123456789") == std::string::npos ? std::stoi(each) : 0;
    if (options_.job.np) slots = *options_.job.np / nodes;
    const std::vector<int>& tasks = options_.where.slurm_tasks;
    std::vector<Host> hosts;
    for (const SlurmHost& host : allocation_.hosts) {
      hosts.push_back({host.name, tasks.empty() ? slots : tasks[hosts.size()]});
    }
    return hosts;
  }

 private:
  const Options& options_;
  const SlurmAllocation& allocation_;
};

// If GPUs are counted for each task of the job, srun would take them for those of one task a node.
std::optional<std::int64_t> gpus_of_a_node() {
  const auto each = env::get(env::Var::kSlurmGpusPerTask);  // "2", "tesla:2"
  if (!each) return std::nullopt;
  if (const auto gpus = env::get_int(env::Var::kSlurmGpusOnNode)) return gpus;
  const std::vector<int> tasks =
      expand_counts(env::get(env::Var::kSlurmTasksPerNode).value_or("1"));
  return std::int64_t{tasks.front()} * expand_counts(each->substr(each->rfind(':') + 1)).front();
}

std::vector<std::string> line_of_srun(const std::string& dlrun, std::size_t nodes) {
  const Program srun = find_program("srun");
  DL_CHECK(srun.exit_code == 0, kNotFound, "{}; is SLURM's bin folder in PATH?", srun.error);
  // --overlap: the batch script's own step holds CPUs. --mem=0: all of the job's memory.
  std::vector<std::string> line = {srun.path,
                                   fmt::format("--nodes={}", nodes),
                                   fmt::format("--ntasks={}", nodes),
                                   "--ntasks-per-node=1",
                                   "--mpi=none",
                                   "--overlap",
                                   "--quiet",
                                   "--mem=0",
                                   "--kill-on-bad-exit=0",
                                   "--export=ALL"};
  if (may_bind_tasks(read_slurm_conf())) line.emplace_back("--cpu-bind=none");
  if (const auto gpus = gpus_of_a_node()) {
    line.push_back(fmt::format("--gpus-per-node={}", *gpus));
  }
  line.push_back(dlrun);
  line.emplace_back(remote::kAgentWord);
  return line;
}

}  // namespace

int run_on_allocation(const Options& options, const SlurmAllocation& allocation, CommandLine line) {
  be_called_dlrun();
  Options timed = options;
  timed.end.preempt_at = time_of_preemption(options);
  for (const Exported& told : told_to_ranks()) {
    for (App& app : timed.job.apps) {
      const auto is_same = [&told](const Exported& own) { return own.name == told.name; };
      if (std::ranges::none_of(app.exports, is_same)) app.exports.push_back(told);
    }
  }
  const AllocatedHosts hosts(timed, allocation);
  return remote::run_job_on(hosts,
                            {.starter = "srun",
                             .lines =
                                 [](const JobPlan& plan, const std::string& dlrun) {
                                   std::vector<std::string> names;
                                   for (const Host& host : plan.hosts) names.push_back(host.name);
                                   std::vector<std::string> srun =
                                       line_of_srun(dlrun, names.size());
                                   clear_environment_for_srun();
                                   return lines_of_srun(std::move(srun), std::move(names));
                                 }},
                            timed, line);
}

}  // namespace dl::launcher
