// Runs a job whose agents are on other hosts, from the user's line to dlrun's exit code.
#pragma once

#include <functional>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"
#include "launcher/process/own_process.h"
#include "launcher/remote/nodes/remote_nodes.h"

namespace dl::launcher::remote {

// True if --hosts or --hostfile names a host other than this machine.
bool is_for_hosts(const WhereOptions& where);

// How the agents of a job are started and reached.
struct Reach {
  std::string starter;  // "ssh", for --dry-run
  // `dlrun`: the path of this program.
  std::function<MakeLines(const JobPlan& plan, const std::string& dlrun)> lines;
};

// Throws Error: kInvalidArgument for bad usage, another kind if something fails before the first
// agent is started.
int run_job_on(const HostSource& source, const Reach& reach, const Options& options,
               CommandLine line);
// run_job_on() for --hosts and --hostfile, by ssh.
int run_on_hosts(const Options& options, CommandLine line);

}  // namespace dl::launcher::remote
