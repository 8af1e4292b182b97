#include "launcher/remote/node_line.h"

#include <fmt/format.h>

#include "launcher/cli/table/option_table.h"
#include "rendezvous/first_cause/first_cause.h"
#include "rendezvous/rank_numbers.h"

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
  const std::vector<std::string>& program = plan.started.apps.front().program;
  line.insert(line.end(), program.begin(), program.end());
  return line;
}

std::string job_plan_text(const JobPlan& plan, const std::string& starter) {
  std::vector<int> slots;
  for (const Host& host : plan.hosts) slots.push_back(host.slots);
  const std::vector<std::vector<int>> ranks = rendezvous::number_ranks(slots, plan.rank_by);
  std::size_t count = 0;
  bool counted = true;
  std::string text;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    text += fmt::format("node {}  host {}  ", i, plan.hosts[i].name);
    text += slots[i] == 0 ? "ranks: the host counts them\n"
            : plan.rank_by == rendezvous::RankBy::kSlot
                ? fmt::format("ranks {} to {}\n", ranks[i].front(), ranks[i].back())
                : rendezvous::rank_list(ranks[i]) + "\n";
    count += ranks[i].size();
    counted = counted && slots[i] > 0;
  }
  return fmt::format("job {}: {} on {} hosts, started by {}\n{}", plan.name,
                     counted ? fmt::format("{} ranks", count) : "ranks", plan.hosts.size(), starter,
                     text);
}

}  // namespace dl::launcher::remote
