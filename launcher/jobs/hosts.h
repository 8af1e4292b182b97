// The jobs of this user on the hosts that a line of `dlrun ps` or `dlrun kill` names.
#pragma once

#include <vector>

#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/jobs/view/job.h"
#include "launcher/remote/ask/ask_hosts.h"

namespace dl::launcher::jobs {

// The hosts of a line. Below salloc on a login node also this one: the dlruns of its jobs are here.
remote::HostChoice read_hosts(const SubcommandLine& line);

// One entry for each host of `choice`, or for this host if it names none. A host that does not
// answer has an error. Says on standard error for which hosts it waits.
std::vector<HostJobs> jobs_of(const remote::HostChoice& choice);

// Says each error on standard error. Returns true if there is one.
bool say_errors(const std::vector<HostJobs>& hosts);

// `dlrun ps` and `dlrun kill`.
int run_ps(const SubcommandLine& line);
int run_kill(const SubcommandLine& line);

}  // namespace dl::launcher::jobs
