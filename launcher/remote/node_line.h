// The order for one node of a job on several hosts: a line of options that dlrun itself reads
// there.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"

namespace dl::launcher::remote {

// The options of node `node`. They omit what only the frontend needs (logs, hosts), and the
// rendezvous endpoint, which the node gets later.
std::vector<std::string> node_line(const Options& options, const JobPlan& plan, int node);
// A line for each program: its number of ranks, and what not all programs have alike. Throws
// kInvalidArgument.
std::vector<std::vector<std::string>> program_lines(const std::vector<App>& apps);
// The indices of the programs that the ranks of node `node` run.
std::vector<int> programs_on(const JobPlan& plan, int node);

// A variable of -x with its value. Throws kInvalidArgument if it has none here.
std::string entry_of(const Exported& variable);

}  // namespace dl::launcher::remote
