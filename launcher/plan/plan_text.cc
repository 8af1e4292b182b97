#include "launcher/plan/plan_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text/number.h"
#include "launcher/bind/drawing.h"
#include "launcher/plan/apps.h"
#include "launcher/plan/environment.h"
#include "rendezvous/net/rank_list.h"
#include "rendezvous/rank_numbers.h"

namespace dl::launcher {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> tokens_of(const NodePlan& plan, const LocalRank& rank) {
  std::vector<std::string> tokens;
  for (const int gpu : rank.gpus) tokens.push_back(plan.gpus[static_cast<std::size_t>(gpu)].token);
  return tokens;
}

int rank_of(const Meeting& meeting, const LocalRank& rank) {
  return meeting.ranks[static_cast<std::size_t>(rank.local_rank)];
}

std::string gpu_lines(const NodePlan& plan) {
  std::string text;
  for (const VisibleGpu& gpu : plan.gpus) {
    text += fmt::format("{}  GPU {}: {}{}{}\n", text.empty() ? "\n" : "", gpu.token, gpu.name,
                        gpu.uuid.empty() || gpu.uuid == gpu.token ? "" : ", ",
                        gpu.uuid == gpu.token ? "" : gpu.uuid);
  }
  if (!plan.gpus.empty() && plan.gpu_policy == GpuPolicy::kLeave) {
    text += "  they are left to the program; --gpu-policy gives them out\n";
  }
  for (const std::string& line : shared_gpus(plan)) text += "  " + line + "\n";
  return text;
}

std::string set_by(const Setting& setting) {
  switch (setting.by) {
    case SetBy::kDefault:
      return "default";
    case SetBy::kLine:
      return setting.place.empty() ? "line" : setting.place;
    case SetBy::kVariable:
      return setting.variable;
  }
  return "";
}

// "job.app:3, for ./server of rank 0"
std::string set_by(const Setting& setting, const JobOptions& job) {
  if (!setting.program) return set_by(setting);
  return fmt::format("{}, for {} of {}", set_by(setting),
                     job.apps[*setting.program].program.front(),
                     ranks_of_program(job.apps, *setting.program));
}

std::string headline_of(const NodePlan& plan, int world_size) {
  std::string text = fmt::format("job {}: {} on {}\n{}", plan.job.name,
                                 counted(static_cast<std::uint64_t>(world_size), "rank"),
                                 counted(static_cast<std::uint64_t>(plan.job.nnodes), "node"),
                                 programs_as_text(plan.job.started.apps));
  if (plan.job.rdzv_endpoint.empty()) return text;
  return text + fmt::format(
                    "the nodes meet at {}; this is {}, and the others are supposed to be "
                    "like it\n",
                    plan.job.rdzv_endpoint,
                    plan.node_rank < 0 ? "a node that is numbered when it comes"
                                       : fmt::format("node {}", plan.node_rank));
}

// The environment of this node's first rank. For each further program, the variables of its first
// rank that differ from it.
std::string environments_as_text(const NodePlan& plan, const Meeting& meeting) {
  const LocalRank& first = plan.ranks.front();
  const std::vector<std::string> common = rank_environment(plan, meeting, first, {});
  std::string text = fmt::format("\nenvironment of rank {}\n", rank_of(meeting, first));
  for (const std::string& entry : common) text += fmt::format("  {}\n", entry);
  std::size_t shown = plan.job.started.app_of(rank_of(meeting, first));
  for (const LocalRank& local : plan.ranks) {
    const int rank = rank_of(meeting, local);
    const std::size_t app = plan.job.started.app_of(rank);
    if (app <= shown) continue;  // the ranks of a node ascend
    shown = app;
    text += fmt::format("\nenvironment of rank {}, where it differs from that of rank {}\n", rank,
                        rank_of(meeting, first));
    const std::vector<std::string> own = rank_environment(plan, meeting, local, {});
    for (const std::string& entry : own) {
      if (std::ranges::find(common, entry) == common.end()) text += fmt::format("  {}\n", entry);
    }
    for (const std::string& entry : common) {
      const std::string begin = entry.substr(0, entry.find('=') + 1);
      const auto has_name = [&begin](const std::string& one) { return one.starts_with(begin); };
      if (std::ranges::any_of(own, has_name)) continue;
      text += fmt::format("  {} is not set by dlrun\n", begin.substr(0, begin.size() - 1));
    }
  }
  return text;
}

ordered_json settings_as_json(const std::vector<Setting>& settings) {
  ordered_json options = ordered_json::array();
  for (const Setting& setting : settings) {
    options.push_back(
        {{"option", setting.option},
         {"value", setting.value},
         {"set_by", set_by(setting)},
         {"program", setting.program ? ordered_json(*setting.program) : ordered_json(nullptr)}});
  }
  return options;
}

ordered_json programs_as_json(const JobPlan& plan) {
  ordered_json programs = ordered_json::array();
  for (const App& app : plan.started.apps) programs.push_back(app.program);
  return programs;
}

// ASCII only, so that no name controls a terminal.
std::string json_text(const ordered_json& object) {
  return object.dump(2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string settings_as_table(const std::vector<Setting>& settings, const JobOptions& job) {
  std::size_t options = 0, values = 0;
  for (const Setting& setting : settings) {
    options = std::max(options, setting.option.size());
    values = std::max(values, std::min<std::size_t>(24, setting.value.size()));
  }
  std::string text = "\nwho set what\n";
  for (const Setting& setting : settings) {
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", setting.option, options, setting.value, values,
                        set_by(setting, job));
  }
  return text;
}

std::string plan_in_short(const std::vector<Setting>& settings, const NodePlan& plan) {
  return headline_of(plan, plan.job.nnodes * plan.local_world_size()) +
         settings_as_table(settings, plan.job.started) + "\n";
}

std::string plan_as_table(const std::vector<Setting>& settings, const NodePlan& plan,
                          const Meeting& meeting) {
  std::string text = headline_of(plan, meeting.world_size);
  const bool gpus = !plan.ranks.front().gpus.empty();
  text +=
      fmt::format("\n  rank  node  local  CPUs          {}host\n", gpus ? "GPUs          " : "");
  for (const LocalRank& rank : plan.ranks) {
    text += fmt::format("{:>6}{:>6}{:>7}  {:<12}  ", rank_of(meeting, rank), meeting.group_rank,
                        rank.local_rank,
                        rank.binding.cpus.empty() ? "not bound" : cpu_list(rank.binding.cpus));
    if (gpus) text += fmt::format("{:<12}  ", fmt::join(tokens_of(plan, rank), ","));
    text += plan.host + "\n";
  }
  text += gpu_lines(plan);
  for (const std::string& line : plan.bindings_drawn) text += "\n" + line;
  if (!plan.bindings_drawn.empty()) text += "\n";
  text += settings_as_table(settings, plan.job.started);
  return text + environments_as_text(plan, meeting);
}

std::string plan_as_json(const std::vector<Setting>& settings, const NodePlan& plan,
                         const Meeting& meeting) {
  ordered_json ranks = ordered_json::array();
  for (const LocalRank& rank : plan.ranks) {
    ordered_json environment = ordered_json::object();
    for (const std::string& entry : rank_environment(plan, meeting, rank, {})) {
      const std::size_t equals = entry.find('=');
      environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
    ranks.push_back({{"rank", rank_of(meeting, rank)},
                     {"local_rank", rank.local_rank},
                     {"node", meeting.group_rank},
                     {"program", plan.job.started.app_of(rank_of(meeting, rank))},
                     {"cpus", rank.binding.cpus.empty() ? ordered_json(nullptr)
                                                        : ordered_json(rank.binding.cpus)},
                     {"gpus", rank.gpus.empty() ? ordered_json(nullptr) : ordered_json(rank.gpus)},
                     {"environment", environment}});
  }
  ordered_json gpus = ordered_json::array();
  for (const VisibleGpu& gpu : plan.gpus) {
    gpus.push_back({{"token", gpu.token}, {"uuid", gpu.uuid}, {"name", gpu.name}});
  }
  const ordered_json plan_json = {
      {"job", plan.job.name},
      {"nnodes", plan.job.nnodes},
      {"node_rank", plan.node_rank < 0 ? ordered_json(nullptr) : ordered_json(plan.node_rank)},
      {"host", plan.host},
      {"nproc_per_node", plan.local_world_size()},
      {"world_size", meeting.world_size},
      {"program", plan.job.started.apps.front().program},
      {"programs", programs_as_json(plan.job)},
      {"rdzv_endpoint", plan.job.rdzv_endpoint.empty() ? ordered_json(nullptr)
                                                       : ordered_json(plan.job.rdzv_endpoint)},
      {"gpus", gpus},
      {"settings", settings_as_json(settings)},
      {"ranks", ranks}};
  return json_text(plan_json);
}

std::string hosts_plan_as_table(const std::vector<Setting>& settings, const JobPlan& plan,
                                const std::string& starter) {
  const std::vector<std::vector<int>> ranks = plan.ranks_of_hosts();
  std::size_t count = 0;
  bool counted = true;
  std::string text;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    const int slots = plan.hosts[i].slots;
    text += fmt::format("node {}  host {}  ", i, plan.hosts[i].name);
    text += slots == 0 ? "ranks: the host counts them\n"
            : plan.rank_by == rendezvous::RankBy::kSlot
                ? fmt::format("ranks {} to {}\n", ranks[i].front(), ranks[i].back())
                : rendezvous::rank_list(ranks[i]) + "\n";
    count += ranks[i].size();
    counted = counted && slots > 0;
  }
  return fmt::format("job {}: {} on {} hosts, started by {}\n{}{}{}", plan.name,
                     counted ? fmt::format("{} ranks", count) : "ranks", plan.hosts.size(), starter,
                     programs_as_text(plan.started.apps), text,
                     settings_as_table(settings, plan.started));
}

std::string hosts_plan_as_json(const std::vector<Setting>& settings, const JobPlan& plan,
                               const std::string& starter) {
  const std::vector<std::vector<int>> numbers = plan.ranks_of_hosts();
  ordered_json hosts = ordered_json::array();
  ordered_json ranks = ordered_json::array();
  bool counted = true;
  for (std::size_t node = 0; node < plan.hosts.size(); ++node) {
    const Host& host = plan.hosts[node];
    counted = counted && host.slots > 0;
    hosts.push_back(
        {{"node", node},
         {"host", host.name},
         {"nproc_per_node", host.slots > 0 ? ordered_json(host.slots) : ordered_json(nullptr)}});
    for (std::size_t i = 0; i < numbers[node].size(); ++i) {
      ranks.push_back({{"rank", numbers[node][i]},
                       {"local_rank", i},
                       {"node", node},
                       {"program", plan.started.app_of(numbers[node][i])}});
    }
  }
  const std::size_t world_size = ranks.size();
  return json_text({{"job", plan.name},
                    {"nnodes", plan.nnodes},
                    {"world_size", counted ? ordered_json(world_size) : ordered_json(nullptr)},
                    {"program", plan.started.apps.front().program},
                    {"programs", programs_as_json(plan)},
                    {"starter", starter},
                    {"hosts", hosts},
                    {"settings", settings_as_json(settings)},
                    {"ranks", counted ? ranks : ordered_json(nullptr)}});
}

}  // namespace dl::launcher
