// The lines to the agents of a step: one srun starts a dlrun on each node, and each dlrun connects
// back.
//
//   dlrun (frontend) ── warden ── srun ─ ─ slurmstepd ── dlrun (agent) ── ranks
//        └──────────────── two connections of each agent ────┘
//
// srun's own output tears lines, so it is not used as a connection. The key of the two connections
// goes to the tasks as srun_task.h says; everything else goes over the connections.
#pragma once

#include <string>
#include <vector>

#include "launcher/remote/nodes/remote_nodes.h"

namespace dl::launcher {

// `srun`: the words of the line; argv[0] is a path. Task n must be on host n.
remote::MakeLines lines_of_srun(std::vector<std::string> srun, std::vector<std::string> hosts);

}  // namespace dl::launcher
