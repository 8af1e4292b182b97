#include "launcher/plan/plan_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text/number.h"
#include "launcher/bind/drawing.h"
#include "launcher/plan/apps.h"
#include "launcher/plan/environment.h"

namespace dl::launcher {
namespace {

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
      return "line";
    case SetBy::kVariable:
      return setting.variable;
  }
  return "";
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

}  // namespace

std::string settings_as_table(const std::vector<Setting>& settings) {
  std::size_t options = 0, values = 0;
  for (const Setting& setting : settings) {
    options = std::max(options, setting.option.size());
    values = std::max(values, std::min<std::size_t>(24, setting.value.size()));
  }
  std::string text = "\nwho set what\n";
  for (const Setting& setting : settings) {
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", setting.option, options, setting.value, values,
                        set_by(setting));
  }
  return text;
}

std::string plan_in_short(const std::vector<Setting>& settings, const NodePlan& plan) {
  return headline_of(plan, plan.job.nnodes * plan.local_world_size()) +
         settings_as_table(settings) + "\n";
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
  text += settings_as_table(settings);
  text += fmt::format("\nenvironment of rank {}\n", meeting.ranks.front());
  for (const std::string& entry : rank_environment(plan, meeting, plan.ranks.front(), {})) {
    text += fmt::format("  {}\n", entry);
  }
  return text;
}

std::string plan_as_json(const std::vector<Setting>& settings, const NodePlan& plan,
                         const Meeting& meeting) {
  using nlohmann::ordered_json;
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
  ordered_json options = ordered_json::array();
  for (const Setting& setting : settings) {
    options.push_back(
        {{"option", setting.option}, {"value", setting.value}, {"set_by", set_by(setting)}});
  }
  ordered_json programs = ordered_json::array();
  for (const App& app : plan.job.started.apps) programs.push_back(app.program);
  const ordered_json plan_json = {
      {"job", plan.job.name},
      {"nnodes", plan.job.nnodes},
      {"node_rank", plan.node_rank < 0 ? ordered_json(nullptr) : ordered_json(plan.node_rank)},
      {"host", plan.host},
      {"nproc_per_node", plan.local_world_size()},
      {"world_size", meeting.world_size},
      {"program", plan.job.started.apps.front().program},
      {"programs", programs},
      {"rdzv_endpoint", plan.job.rdzv_endpoint.empty() ? ordered_json(nullptr)
                                                       : ordered_json(plan.job.rdzv_endpoint)},
      {"gpus", gpus},
      {"settings", options},
      {"ranks", ranks}};
  // ASCII only, so that no name controls a terminal.
  return plan_json.dump(2, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace dl::launcher
