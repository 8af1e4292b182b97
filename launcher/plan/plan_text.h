// The text that --dry-run and --verbose print.
#pragma once

#include <string>

#include "launcher/plan/plan.h"

namespace dl::launcher {

// Who gave each option its value; lines.
std::string settings_as_table(const std::vector<Setting>& settings, const JobOptions& job);

std::string plan_as_table(const std::vector<Setting>& settings, const NodePlan& plan,
                          const Meeting& meeting);
// The text of --verbose: without the environment, and without ranks' numbers that are known only
// when the nodes have met.
std::string plan_in_short(const std::vector<Setting>& settings, const NodePlan& plan);
// For one node. One object:
// clang-format off
//   job, nnodes, node_rank, host, nproc_per_node, world_size, program [...] of rank 0, programs [[...]],
//   rdzv_endpoint or null
//   gpus      [{token, uuid, name}]
//   settings  [{option, value, set_by, program}], set_by: "default", "line", "FILE:LINE" of --app, or the name of a variable.
//             program: the index of the only one that it is for, or null
//   ranks     [{rank, local_rank, node, program (index into programs), cpus [...] or null, gpus [index into gpus, ...] or null,
//               environment {NAME: value}}]
// clang-format on
std::string plan_as_json(const std::vector<Setting>& settings, const NodePlan& plan,
                         const Meeting& meeting);

// A job that runs on other hosts, which count CPUs and GPUs themselves. `starter`: the program that
// starts the agents, "ssh".
std::string hosts_plan_as_table(const std::vector<Setting>& settings, const JobPlan& plan,
                                const std::string& starter);
// One object, with the members of plan_as_json() that this machine knows:
//   job, nnodes, world_size or null (a host counts its ranks itself), program, programs, starter,
//   hosts [{node, host, nproc_per_node or null}], settings,
//   ranks [{rank, local_rank, node, program}], of the hosts that have an nproc_per_node, or null
std::string hosts_plan_as_json(const std::vector<Setting>& settings, const JobPlan& plan,
                               const std::string& starter);

}  // namespace dl::launcher
