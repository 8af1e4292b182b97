#include "launcher/remote/node_line.h"

#include <fmt/format.h>

#include "launcher/cli/table/option_table.h"

namespace dl::launcher::remote {

std::vector<std::string> node_line(const Options& options, const JobPlan& plan, int node) {
  const int slots = plan.hosts[static_cast<std::size_t>(node)].slots;
  std::vector<std::string> line = {"--nnodes",
                                   std::to_string(plan.nnodes),
                                   "--node-rank",
                                   std::to_string(node),
                                   "--nproc-per-node",
                                   slots > 0 ? std::to_string(slots) : options.job.nproc_per_node,
                                   "--rdzv-id=" + plan.name};
  for (const OptionRow& row : option_table()) {
    const std::string value = row.pass == nullptr ? "" : row.pass(options);
    if (value.empty()) continue;
    // A value may look like an option.
    line.push_back(row.is_flag() ? std::string(row.name) : fmt::format("{}={}", row.name, value));
  }
  line.emplace_back("--no-python");  // the program has its interpreter by now
  line.emplace_back("--");
  line.insert(line.end(), plan.started.program.begin(), plan.started.program.end());
  return line;
}

std::string job_plan_text(const JobPlan& plan, const std::string& starter) {
  int first_rank = 0;
  bool counted = true;
  std::string text;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    const Host& host = plan.hosts[i];
    text += fmt::format("node {}  host {}  ", i, host.name);
    text += host.slots > 0
                ? fmt::format("ranks {} to {}\n", first_rank, first_rank + host.slots - 1)
                : "ranks: the host counts them\n";
    first_rank += host.slots;
    counted = counted && host.slots > 0;
  }
  return fmt::format("job {}: {} on {} hosts, started by {}\n{}", plan.name,
                     counted ? fmt::format("{} ranks", first_rank) : "ranks", plan.hosts.size(),
                     starter, text);
}

}  // namespace dl::launcher::remote
