// `dlrun doctor` on several hosts: each host's own checks, and what concerns several of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/doctor/mesh.h"
#include "launcher/doctor/report.h"
#include "launcher/remote/ask/ask_hosts.h"

namespace dl::launcher::doctor {

// Says on standard error for which hosts it waits.
Report check_hosts(const remote::HostChoice& choice, const SubcommandLine& line);

// The parts of it that need no host, for tests.

// One host's answer, by the clock of the host that asked.
struct Asked {
  std::string name;             // under which it was asked
  std::string starter = "ssh";  // or "srun"
  std::string error;            // it has not answered; empty: it has
  HostReport report;
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;
};
// ssh or srun, version and clock of each host.
Checks check_answers(const std::vector<Asked>& hosts, std::string_view own_version);
// One check for each pair of hosts. `answers`: as `names`; nullopt: the host has not answered.
// `starter`: as in Asked.
Checks check_links(const std::vector<std::string>& names,
                   const std::vector<std::optional<MeshAnswer>>& answers,
                   std::string_view starter = "ssh");

}  // namespace dl::launcher::doctor
