// What one node of a job on several hosts is told to do: a line of options that dlrun itself reads
// there.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"

namespace dl::launcher::remote {

// The dlrun line of node `node`, without the program's name and without what concerns the front
// alone (logs, hosts) or comes later (where the nodes meet).
std::vector<std::string> node_line(const Options& options, const JobPlan& plan, int node);

// What --dry-run prints. `starter`: what starts the agents, "ssh".
std::string job_plan_text(const JobPlan& plan, const std::string& starter);

}  // namespace dl::launcher::remote
