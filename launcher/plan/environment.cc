#include "launcher/plan/environment.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <numeric>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/machine/namespaces.h"
#include "core/base/system/unique_fd.h"
#include "launcher/bind/drawing.h"
#include "launcher/plan/apps.h"
#include "launcher/process/own_process.h"

namespace dl::launcher {
namespace {

using env::Var;

std::string entry_of(Var var, std::string_view value) {
  return fmt::format("{}={}", env::name_of(var), value);
}

// Whether the user gives the rank a value, by -x or by dlrun's own environment.
bool is_users(const App& app, Var var) {
  return env::get(var) || std::ranges::any_of(app.exports, [var](const Exported& variable) {
           return variable.name == env::name_of(var) && variable.value;
         });
}

// What belongs to the rank's program alone. A variable that dlrun has set for the rank stays.
void add_own(const App& app, std::vector<std::string>& set) {
  if (!app.wdir.empty()) set.push_back("PWD=" + app.wdir);
  const std::size_t dlruns = set.size();
  for (const Exported& variable : app.exports) {
    if (!variable.value) continue;
    const std::string begin = variable.name + "=";
    const bool is_set =
        std::any_of(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(dlruns),
                    [&](const std::string& entry) { return entry.starts_with(begin); });
    if (!is_set) set.push_back(begin + *variable.value);
  }
}

// Sets one OpenMP thread a core, unless the user places threads in some way.
void add_places(const App& app, const Binding& binding, std::vector<std::string>& set) {
  if (!binding.cpus.empty()) set.push_back(entry_of(Var::kCpus, cpu_list(binding.cpus)));
  constexpr Var kOfUser[] = {Var::kOmpPlaces, Var::kOmpProcBind, Var::kGompCpuAffinity,
                             Var::kKmpAffinity};
  const auto is_placed = [&app](Var var) { return env::is_set(var) || is_users(app, var); };
  if (binding.places.empty() || std::ranges::any_of(kOfUser, is_placed)) return;
  std::vector<std::string> places;
  std::vector<int> first;
  for (const std::vector<int>& place : binding.places) {
    places.push_back(fmt::format("{{{}}}", fmt::join(place, ",")));
    first.push_back(place.front());
  }
  set.push_back(entry_of(Var::kOmpPlaces, fmt::format("{}", fmt::join(places, ","))));
  set.push_back(entry_of(Var::kGompCpuAffinity, fmt::format("{}", fmt::join(first, " "))));
}

// The absolute path of a --wdir that not all programs have.
std::string checked_directory(const std::string& wdir) {
  std::string path = absolute_wdir(wdir);
  // As chdir() needs it, which the ranks do.
  const UniqueFd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  DL_CHECK(folder && ::access(path.c_str(), X_OK) == 0, kInvalidArgument, "{}",
           wdir_error(wdir, errno));
  return path;
}

}  // namespace

std::vector<std::string> rank_environment(const NodePlan& plan, const Meeting& meeting,
                                          const LocalRank& rank, const Handles& handles) {
  std::vector<std::string> set;
  set.reserve(32);
  const auto text = [&](Var var, std::string_view value) {
    const std::string_view name = env::name_of(var);
    std::string entry;
    entry.reserve(name.size() + 1 + value.size());
    entry.append(name).append(1, '=').append(value);
    set.push_back(std::move(entry));
  };
  const auto number = [&](Var var, std::int64_t value) { text(var, std::to_string(value)); };

  const int rank_in_job = meeting.ranks[static_cast<std::size_t>(rank.local_rank)];
  const App& app = plan.job.started.apps[plan.job.started.app_of(rank_in_job)];
  number(Var::kRank, rank_in_job);
  number(Var::kWorldSize, meeting.world_size);
  number(Var::kLocalRank, plan.where.virtual_local_rank ? 0 : rank.local_rank);
  number(Var::kLocalWorldSize, plan.local_world_size());
  number(Var::kGroupRank, meeting.group_rank);
  number(Var::kGroupWorldSize, plan.job.nnodes);
  number(Var::kRoleRank, rank_in_job);
  number(Var::kRoleWorldSize, meeting.world_size);
  text(Var::kRoleName, plan.job.started.role);
  text(Var::kMasterAddr, meeting.master_addr);
  number(Var::kMasterPort, meeting.master_port);
  number(Var::kTorchRestartCount, static_cast<std::int64_t>(meeting.generation));
  number(Var::kTorchMaxRestarts, plan.job.end.max_restarts);
  text(Var::kTorchRunId, plan.job.name);
  // Python's truth values.
  text(Var::kTorchUseAgentStore, meeting.torch_store ? "True" : "False");
  if (!handles.error_file.empty()) text(Var::kTorchErrorFile, handles.error_file);
  if (!is_users(app, Var::kOmpNumThreads)) {
    number(Var::kOmpNumThreads,
           rank.binding.cpus.empty() ? plan.omp_num_threads : rank.binding.threads);
  }
  add_places(app, rank.binding, set);
  if (!is_users(app, Var::kTorchNcclErrors)) text(Var::kTorchNcclErrors, "1");
  // Output goes through a pipe, and Python buffers what it writes to one.
  if (!is_users(app, Var::kPythonUnbuffered)) text(Var::kPythonUnbuffered, "1");

  if (!meeting.gloo_interface.empty() && !is_users(app, Var::kGlooSocketIfname)) {
    text(Var::kGlooSocketIfname, meeting.gloo_interface);
  }

  if (!rank.gpus.empty()) {
    std::vector<int> seen = rank.gpus;
    if (plan.gpu_policy == GpuPolicy::kScope) {
      std::vector<std::string> own;
      for (std::size_t i = 0; i < seen.size(); ++i) {
        own.push_back(plan.gpus[static_cast<std::size_t>(rank.gpus[i])].token);
        seen[i] = static_cast<int>(i);
      }
      text(Var::kCudaVisibleDevices, fmt::format("{}", fmt::join(own, ",")));
    }
    text(Var::kGpus, fmt::format("{}", fmt::join(seen, ",")));
  }

  if (const auto backend = plan.job.started.torch_backend) {
    // Empty counts as not set.
    text(Var::kTorchBackend, *backend == TorchBackend::kDlrun ? "dlrun" : "");
  }

  text(Var::kJobId, plan.job.name);
  number(Var::kGeneration, static_cast<std::int64_t>(meeting.generation));
  if (!is_users(app, Var::kNodeId)) {
    text(Var::kNodeId, fmt::format("{}/{}", plan.job.name, meeting.group_rank));
  }
  text(Var::kDlrunFolder, own_file().parent_path().string());
  text(Var::kNetwork, network_namespace());
  if (!plan.meet.iface.empty()) text(Var::kIface, plan.meet.iface);
  if (!meeting.store.empty()) text(Var::kStore, meeting.store);
  if (handles.key_fd >= 0) number(Var::kKeyFd, handles.key_fd);
  if (!handles.key_file.empty()) text(Var::kKeyFile, handles.key_file);
  if (handles.lifeline_fd >= 0) number(Var::kLifelineFd, handles.lifeline_fd);
  if (!handles.checkpoint.empty()) text(Var::kCheckpoint, handles.checkpoint);
  if (handles.recorder_fd >= 0) number(Var::kRecorderFd, handles.recorder_fd);
  if (handles.pmi_fd >= 0) {  // as Hydra's, MPICH's mpiexec
    number(Var::kPmiFd, handles.pmi_fd);
    number(Var::kPmiRank, rank_in_job);
    number(Var::kPmiSize, meeting.world_size);
    number(Var::kMpiLocalRank, rank.local_rank);
    number(Var::kMpiLocalRanks, plan.local_world_size());
  }
  // An MPICH program would be taken for an Open MPI program.
  if (plan.has_mpirun_names && handles.pmi_fd < 0) {
    number(Var::kOmpiRank, rank_in_job);
    number(Var::kOmpiSize, meeting.world_size);
    number(Var::kOmpiLocalRank, plan.where.virtual_local_rank ? 0 : rank.local_rank);
    number(Var::kOmpiLocalSize, plan.local_world_size());
    const std::vector<int> sizes = plan.job.started.ranks_of_apps(meeting.world_size);
    std::vector<int> firsts(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), firsts.begin(), 0);
    number(Var::kOmpiApp, static_cast<std::int64_t>(plan.job.started.app_of(rank_in_job)));
    number(Var::kOmpiApps, static_cast<std::int64_t>(sizes.size()));
    text(Var::kOmpiAppSizes, fmt::format("{}", fmt::join(sizes, " ")));
    text(Var::kOmpiFirstRanks, fmt::format("{}", fmt::join(firsts, " ")));
  }
  // The terminal shows rank 0's unfinished line last.
  if (handles.progress_width > 0 && rank_in_job == 0) {
    number(Var::kProgressWidth, handles.progress_width);
  }
  add_own(app, set);
  return set;
}

std::vector<std::string> unset_exports(const NodePlan& plan) {
  std::vector<std::string> names;
  for (const App& app : plan.job.started.apps) {
    for (const Exported& variable : app.exports) {
      const bool is_known = std::ranges::find(names, variable.name) != names.end();
      if (variable.value || env::exists(variable.name) || is_known) continue;
      names.push_back(variable.name);
    }
  }
  if (names.empty()) return names;
  NodePlan bare = plan;  // what dlrun gives by itself
  for (App& app : bare.job.started.apps) app.exports.clear();
  Meeting meeting;
  meeting.ranks.resize(plan.ranks.size());
  std::iota(meeting.ranks.begin(), meeting.ranks.end(), 0);
  if (plan.job.nnodes > 1) meeting.gloo_interface = "lo";  // its name is not known yet
  for (const std::string& entry : rank_environment(bare, meeting, bare.ranks.front(), {})) {
    std::erase(names, entry.substr(0, entry.find('=')));
  }
  return names;
}

std::string wdir_error(std::string_view wdir, int error) {
  const char* const cure = error == ENOENT    ? "; make it, or give another"
                           : error == ENOTDIR ? "; give a directory"
                           : error == EACCES  ? "; give a directory that this user may enter"
                                              : "";
  return fmt::format("--wdir {}: {}{}", wdir, system_error_text(error), cure);
}

void apply_process_options(Options& options) {
  std::vector<App>& apps = options.job.apps;
  for (const Exported& variable : common_exports(apps)) {
    if (variable.value) env::set(variable.name, *variable.value);
  }
  const std::optional<std::string> wdir = common_wdir(apps);
  if (wdir && wdir->empty()) return;
  if (!wdir) {
    for (App& app : apps) {
      if (app.is_here) app.wdir = checked_directory(app.wdir);
    }
    return;
  }
  for (std::string* const path : {&options.output.log_dir, &options.meet.key_file}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path);
  }
  DL_CHECK(::chdir(wdir->c_str()) == 0, kInvalidArgument, "{}", wdir_error(*wdir, errno));
  // A shell would have set PWD, and programs take it for the name of their folder.
  env::set("PWD", std::filesystem::current_path());
  for (App& app : apps) app.wdir.clear();
}

}  // namespace dl::launcher
