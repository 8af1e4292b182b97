// The order for one node of a job on several hosts: a line of options that dlrun itself reads
// there.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"

namespace dl::launcher::remote {

// The dlrun line of node `node`, without the program's name. It omits options that only the
// frontend needs (logs, hosts), and the rendezvous endpoint, which the node gets later.
std::vector<std::string> node_line(const Options& options, const JobPlan& plan, int node);

// The text of --dry-run. `starter`: the program that starts the agents, "ssh".
std::string job_plan_text(const JobPlan& plan, const std::string& starter);

}  // namespace dl::launcher::remote
