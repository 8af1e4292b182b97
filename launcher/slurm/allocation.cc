#include "launcher/slurm/allocation.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/slurm/hostlist.h"

namespace dl::launcher {
namespace {

using env::Var;

template <typename Read>
auto read_variable(Var var, Read read) {
  try {
    return read(env::get(var).value_or(""));
  } catch (const Error& error) {
    throw_error(ErrorKind::kInvalidArgument, "{}: {}", env::name_of(var), error.what());
  }
}

// A number for each of the job's nodes.
std::vector<int> counts_of_nodes(Var var, std::size_t nodes) {
  std::vector<int> counts =
      read_variable(var, [](const std::string& text) { return expand_counts(text); });
  DL_CHECK(counts.size() == nodes, kInvalidArgument, "{} has {} nodes, SLURM_JOB_NODELIST {}",
           env::name_of(var), counts.size(), nodes);
  return counts;
}

std::uint64_t number_or_zero(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// SLURM's number of the step that is the shell of salloc (LaunchParameters=use_interactive_step).
// The user works there with the whole allocation, as in a batch script.
constexpr const char* kInteractiveStep = "4294967290";

bool is_in_step() {
  return env::get(Var::kSlurmStepTasks) && env::get(Var::kSlurmStepId) != kInteractiveStep;
}

constexpr std::uint64_t kFirstPort = 10000;
constexpr std::uint64_t kPorts = 5000;

// 311 is coprime to the number of ports: 5000 jobs have 5000 ports, and their first steps too.
std::uint64_t port_of(const SlurmStep& step) {
  return (number_or_zero(step.job) + 311 * number_or_zero(step.step)) % kPorts;
}

}  // namespace

std::string SlurmStep::name() const {
  return "slurm-" + id();
}

std::string SlurmStep::endpoint() const {
  return fmt::format("{}:{}", hosts.front(), kFirstPort + port_of(*this));
}

std::string SlurmStep::key_endpoint() const {
  return fmt::format("{}:{}", hosts.front(), kFirstPort + kPorts + port_of(*this));
}

std::optional<SlurmStep> slurm_step() {
  const auto tasks = env::get_int(Var::kSlurmStepTasks);
  if (!tasks || !is_in_step() || !env::is_set(Var::kSlurmRank) || env::is_set(Var::kJobId)) {
    return std::nullopt;
  }
  SlurmStep step;
  step.tasks = static_cast<int>(*tasks);
  step.job = env::get(Var::kSlurmJobId).value_or("");
  step.step = env::get(Var::kSlurmStepId).value_or("");
  step.node = static_cast<int>(env::get_int(Var::kSlurmNodeId).value_or(0));
  if (const auto each = env::get(Var::kSlurmStepTasksPerNode)) {
    const std::vector<int> counts = read_variable(
        Var::kSlurmStepTasksPerNode, [](const std::string& text) { return expand_counts(text); });
    step.one_task_a_node =
        std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; });
  } else {
    step.one_task_a_node = step.tasks == env::get_int(Var::kSlurmStepNodes).value_or(1);
  }
  if (env::is_set(Var::kSlurmStepNodeList)) {
    step.hosts = read_variable(Var::kSlurmStepNodeList,
                               [](const std::string& text) { return expand_hostlist(text); });
    DL_CHECK(step.node >= 0 && step.node < static_cast<int>(step.hosts.size()), kInvalidArgument,
             "SLURM_NODEID is {}, but SLURM_STEP_NODELIST has {} nodes; is SLURM's environment "
             "passed on from another job?",
             step.node, step.hosts.size());
  }
  return step;
}

std::optional<SlurmAllocation> slurm_allocation() {
  if (!env::is_set(Var::kSlurmJobId) || !env::is_set(Var::kSlurmJobNodeList) ||
      env::is_set(Var::kJobId) || is_in_step()) {
    return std::nullopt;
  }
  SlurmAllocation allocation;
  allocation.job = env::get(Var::kSlurmJobId).value_or("");
  const std::vector<std::string> names = read_variable(
      Var::kSlurmJobNodeList, [](const std::string& text) { return expand_hostlist(text); });
  std::vector<int> cpus(names.size(), 0);
  if (env::is_set(Var::kSlurmJobCpusPerNode)) {
    cpus = counts_of_nodes(Var::kSlurmJobCpusPerNode, names.size());
  }
  const bool asked = env::is_set(Var::kSlurmTasks) || env::is_set(Var::kSlurmTasksAsked);
  if (asked && env::is_set(Var::kSlurmTasksPerNode)) {
    allocation.tasks = counts_of_nodes(Var::kSlurmTasksPerNode, names.size());
  }
  for (std::size_t i = 0; i < names.size(); ++i) allocation.hosts.push_back({names[i], cpus[i]});
  return allocation;
}

std::optional<SlurmAllocation> allocation_by_srun() {
  auto allocation = slurm_allocation();
  // SLURM sets this variable only for programs that it starts there itself.
  const bool is_here = env::is_set(Var::kSlurmdNodeName);
  if (!allocation || (allocation->hosts.size() == 1 && is_here)) return std::nullopt;
  return allocation;
}

}  // namespace dl::launcher
