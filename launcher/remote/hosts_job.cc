#include "launcher/remote/remote.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/cli/read/shell_text.h"
#include "launcher/frontend/frontend.h"
#include "launcher/plan/apps.h"
#include "launcher/plan/machine/this_host.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/plan_text.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/warden/job_signals.h"
#include "launcher/process/warden/warden.h"
#include "launcher/remote/node_line.h"
#include "launcher/remote/nodes/remote_nodes.h"
#include "launcher/remote/ssh/ssh.h"
#include "launcher/remote/ssh/ssh_line.h"

namespace dl::launcher::remote {
namespace {

namespace fs = std::filesystem;

// Three pipes to each ssh, and the descriptors that its start needs.
constexpr int kFdsOfHost = 8;
// Assumed ranks of a node that counts them itself, for the number of log files.
constexpr int kMostCounted = 256;

// dlrun's own settings that mean one thing on every host. Settings of one machine are left out:
// descriptors, folders of modules, network interfaces.
constexpr std::array kSettings = {
    env::Var::kRecorder,    env::Var::kBackend,   env::Var::kAlgorithm, env::Var::kPlan,
    env::Var::kTimeout,     env::Var::kLog,       env::Var::kMpi,       env::Var::kOmpNumThreads,
    env::Var::kRecorderDir, env::Var::kCudaCache, env::Var::kCudnnCache};

// The part of this environment that all ranks get: the variables that -x names, and dlrun's own.
std::vector<std::string> environment_of(const Options& options) {
  std::vector<std::string> entries;
  for (const env::Var setting : kSettings) {
    if (const auto value = env::get(setting)) {
      entries.push_back(fmt::format("{}={}", env::name_of(setting), *value));
    }
  }
  // The agents' lines have no -n.
  entries.push_back(fmt::format("{}={}", env::name_of(env::Var::kMpirunNames),
                                has_mpirun_names(options) ? 1 : 0));
  for (const Exported& one : common_exports(options.job.apps)) entries.push_back(entry_of(one));
  return entries;
}

}  // namespace

bool is_for_hosts(const WhereOptions& where) {
  return where.hosts.size() > 1 ||
         (where.hosts.size() == 1 && !is_this_host(where.hosts.front().host));
}

int run_on_hosts(const Options& options, CommandLine line) {
  const auto lines = [&options](const JobPlan& plan, const std::string& dlrun) -> MakeLines {
    const std::vector<std::string> ssh = read::shell_words("--ssh", options.where.ssh);
    DL_CHECK(!ssh.empty() && !ssh.front().empty(), kInvalidArgument,
             "--ssh is `{}`, wanted ssh and its options", options.where.ssh);
    std::vector<std::pair<std::string, AgentCommand>> commands;
    for (const Host& host : plan.hosts) {
      commands.emplace_back(host.name, agent_command(ssh, host.name, dlrun));
    }
    return [commands, dlrun](boost::asio::io_context& io, WardenClient& warden) {
      std::vector<std::unique_ptr<AgentLine>> made;
      for (const auto& [host, command] : commands) {
        made.push_back(std::make_unique<SshLine>(io, warden, host, command, dlrun));
      }
      return made;
    };
  };
  return run_job_on(HostList(options), {.starter = "ssh", .lines = lines}, options, line);
}

int run_job_on(const HostSource& source, const Reach& reach, const Options& options,
               CommandLine line) {
  RemoteJob job;
  job.plan = make_job_plan(options, source);
  job.join_timeout = options.meet.join_timeout;
  job.dlrun = own_file();
  Start start;
  start.directory = absolute_wdir(common_wdir(options.job.apps).value_or(""));
  start.programs = program_lines(job.plan.started.apps);
  start.environment = environment_of(options);
  int ranks = 0;
  for (const Host& host : job.plan.hosts) {
    start.host = host.name;
    const int node = static_cast<int>(job.starts.size());
    start.options = node_line(options, job.plan, node);
    start.runs = programs_on(job.plan, node);
    job.starts.push_back(start);
    ranks += host.slots > 0 ? host.slots : kMostCounted;
  }
  if (options.output.dry_run) {
    fmt::print("{}",
               options.output.json
                   ? hosts_plan_as_json(options.settings, job.plan, reach.starter)
                   : printable(hosts_plan_as_table(options.settings, job.plan, reach.starter)));
    return 0;
  }
  job.lines = reach.lines(job.plan, job.dlrun);
  for (const std::string& remark : options.remarks) {
    write_error(fmt::format("dlrun: {}\n", printable(remark)));
  }
  const int hosts = static_cast<int>(job.plan.hosts.size());
  const int logs = options.output.log_dir.empty() ? 0 : 2 * ranks;
  raise_descriptor_limit(
      descriptors_for(0, !options.output.log_dir.empty()) + hosts * kFdsOfHost + logs, hosts,
      kHighestRankFd);
  JobSignals::block_signals();
  StartOnHosts starter(std::move(job), start_warden_of_helpers(line));
  return Frontend(options, starter).run();
}

}  // namespace dl::launcher::remote
