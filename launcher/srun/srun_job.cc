#include "launcher/srun/srun_job.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/remote.h"
#include "launcher/remote/ssh/ssh.h"
#include "launcher/slurm/step/srun_line.h"
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

}  // namespace

int run_on_allocation(const Options& options, const SlurmAllocation& allocation, CommandLine line) {
  be_called_dlrun();
  Options timed = options;
  timed.end.preempt_at = time_of_preemption(options);
  for (const auto& [name, value] : told_to_ranks()) {
    for (App& app : timed.job.apps) {
      if (std::ranges::find(app.exports, name, &Exported::name) == app.exports.end()) {
        app.exports.push_back({.name = name, .value = value});
      }
    }
  }
  const AllocatedHosts hosts(timed, allocation);
  return remote::run_job_on(hosts,
                            {.starter = "srun",
                             .lines =
                                 [](const JobPlan& plan, const std::string& dlrun) {
                                   std::vector<std::string> names;
                                   for (const Host& host : plan.hosts) names.push_back(host.name);
                                   std::vector<std::string> srun = srun_line(names.size());
                                   srun.insert(srun.end(), {dlrun, remote::kAgentWord});
                                   clear_environment_for_srun();
                                   return lines_of_srun(std::move(srun), std::move(names));
                                 }},
                            timed, line);
}

}  // namespace dl::launcher
