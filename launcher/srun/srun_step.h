// The lines to the agents of a step: one srun starts a dlrun on each node, and each connects back.
//
//   dlrun (front) ── warden ── srun ─ ─ slurmstepd ── dlrun (agent) ── ranks
//        └──────────────── two connections of each agent ────┘
//
// srun's own output tears lines, so it is no connection. Its standard input reaches every task
// whole: the key of the connections comes that way, and everything else over them.
#pragma once

#include <string>
#include <vector>

#include "launcher/remote/remote_nodes.h"

namespace dl::launcher {

// `srun`: the words of the line, argv[0] a path; task n must be on host n.
remote::MakeLines lines_of_srun(std::vector<std::string> srun, std::vector<std::string> hosts);

}  // namespace dl::launcher
