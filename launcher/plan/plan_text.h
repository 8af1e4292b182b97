// What `--dry-run` prints.
#pragma once

#include <string>

#include "launcher/plan/plan.h"

namespace dl::launcher {

std::string plan_as_table(const NodePlan& plan, const Meeting& meeting);
// One object:
//   job, nnodes, node_rank, host, nproc_per_node, world_size, program [...], rdzv_endpoint or null,
//   gpus [{token, uuid, name}],
//   ranks [{rank, local_rank, node, cpus [...] or null, gpus [index into gpus, ...] or null,
//           environment {NAME: value}}]
std::string plan_as_json(const NodePlan& plan, const Meeting& meeting);

}  // namespace dl::launcher
