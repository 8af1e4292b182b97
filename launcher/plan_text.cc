#include "launcher/plan_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "launcher/environment.h"

namespace dl::launcher {
namespace {

// 0-3,8: as taskset and the kernel write it.
std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::string plural(int n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace

std::string plan_as_table(const Plan& plan, const Meeting& meeting) {
  std::string text =
      fmt::format("job {}: {} on {}\nprogram: {}\n", plan.job, plural(meeting.world_size, "rank"),
                  plural(plan.nnodes, "node"), fmt::join(plan.program, " "));
  if (!plan.rdzv_endpoint.empty()) {
    text += fmt::format(
        "the nodes meet at {}; this is node {}, and the others are supposed to be like it\n",
        plan.rdzv_endpoint, plan.node_rank);
  }
  text += "\n  rank  node  local  CPUs          host\n";
  for (const LocalRank& rank : plan.ranks) {
    text += fmt::format("{:>6}{:>6}{:>7}  {:<12}  {}\n", meeting.first_rank + rank.local_rank,
                        meeting.group_rank, rank.local_rank,
                        rank.cpus.empty() ? "not bound" : cpu_list(rank.cpus), plan.host);
  }
  text += fmt::format("\nenvironment of rank {}\n", meeting.first_rank);
  for (const std::string& entry : rank_environment(plan, meeting, plan.ranks.front(), {})) {
    text += fmt::format("  {}\n", entry);
  }
  return text;
}

std::string plan_as_json(const Plan& plan, const Meeting& meeting) {
  using nlohmann::ordered_json;
  ordered_json ranks = ordered_json::array();
  for (const LocalRank& rank : plan.ranks) {
    ordered_json environment = ordered_json::object();
    for (const std::string& entry : rank_environment(plan, meeting, rank, {})) {
      const std::size_t equals = entry.find('=');
      environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
    ranks.push_back({{"rank", meeting.first_rank + rank.local_rank},
                     {"local_rank", rank.local_rank},
                     {"node", meeting.group_rank},
                     {"cpus", rank.cpus.empty() ? ordered_json(nullptr) : ordered_json(rank.cpus)},
                     {"environment", environment}});
  }
  const ordered_json plan_json = {
      {"job", plan.job},
      {"nnodes", plan.nnodes},
      {"node_rank", plan.node_rank},
      {"host", plan.host},
      {"nproc_per_node", plan.local_world_size()},
      {"world_size", meeting.world_size},
      {"program", plan.program},
      {"rdzv_endpoint",
       plan.rdzv_endpoint.empty() ? ordered_json(nullptr) : ordered_json(plan.rdzv_endpoint)},
      {"ranks", ranks}};
  return plan_json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dl::launcher
