// Runs a job whose agents are on other hosts: the frontend's side, from the user's line to dlrun's
// exit code, and the agent's side.
#pragma once

#include <functional>
#include <string>

#include "core/base/system/unique_fd.h"
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

// dlrun as the agent of a remote node: a frontend without a terminal. Its orders and events travel
// over standard input and output, or over other descriptors (messages.h).
// Runs one node's part of the job that the frontend describes. Returns the exit code of this
// process, which says nothing about the job. Ends at once, with all that it has started, if the
// frontend is gone. `in`, `out`: the connection; empty: standard input and output.
int run_agent(CommandLine line, UniqueFd in, UniqueFd out);

}  // namespace dl::launcher::remote
