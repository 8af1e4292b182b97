#include "launcher/slurm/step/srun_line.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/process/start/program.h"
#include "launcher/slurm/hostlist.h"
#include "launcher/slurm/slurm_conf.h"

namespace dl::launcher {
namespace {

// If GPUs are counted for each task of the job, srun would take them for those of one task a node.
std::optional<std::int64_t> gpus_of_a_node() {
  const auto each = env::get(env::Var::kSlurmGpusPerTask);  // "2", "tesla:2"
  if (!each) return std::nullopt;
  if (const auto gpus = env::get_int(env::Var::kSlurmGpusOnNode)) return gpus;
  const std::vector<int> tasks =
      expand_counts(env::get(env::Var::kSlurmTasksPerNode).value_or("1"));
  return std::int64_t{tasks.front()} * expand_counts(each->substr(each->rfind(':') + 1)).front();
}

}  // namespace

std::vector<std::string> srun_line(std::size_t nodes) {
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
  return line;
}

std::vector<std::string> srun_line(const std::vector<std::string>& hosts) {
  std::vector<std::string> line = srun_line(hosts.size());
  line.push_back(fmt::format("--nodelist={}", fmt::join(hosts, ",")));
  return line;
}

}  // namespace dl::launcher
