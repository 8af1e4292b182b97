// Who runs where: everything about this node's part of a job that is known before anything is
// started.
//
// A NodePlan is a value, made once. What is found out only when the nodes have met (generation, order
// of the nodes, ports) is in Meeting; environment.h joins both.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/bind/binding.h"
#include "launcher/cli/options.h"
#include "launcher/plan/machine.h"

namespace dl::launcher {

struct LocalRank {
  int local_rank = 0;
  Binding binding;
  std::vector<int> gpus;  // of NodePlan::gpus; empty: none is given out
};

struct NodePlan {
  std::string job;
  bool named = false;  // by the user
  std::string run;     // a name that no other run has; the job goes by node 0's
  std::string host;
  int nnodes = 1;
  int node_rank = 0;
  std::vector<LocalRank> ranks;
  int omp_num_threads = 1;                  // of a rank that is not bound
  std::vector<std::string> bindings_drawn;  // --report-bindings; lines
  std::vector<VisibleGpu> gpus;             // that a rank would see, where dlrun looked for them
  GpuPolicy gpu_policy = GpuPolicy::kLeave;
  std::string rdzv_endpoint;  // "host:port" where several nodes meet; empty on one node
  std::string master_addr;
  std::optional<int> master_port;    // as the user gave it
  std::string iface;                 // empty: not given
  std::vector<std::string> program;  // as typed
  std::string executable;            // what is executed, found along PATH

  int local_world_size() const { return static_cast<int>(ranks.size()); }
};

// What all nodes agree on.
struct Meeting {
  std::uint64_t generation = 0;
  int first_rank = 0;  // of this node
  int world_size = 1;
  int group_rank = 0;
  std::string master_addr;
  int master_port = 0;
  std::string store;  // "host:port"
  std::string run;    // names the folder under --log-dir
};

// Whether `options` cannot be followed without knowing the GPUs, or the cores.
bool needs_gpus(const Options& options);
bool needs_topology(const Options& options);

// Throws kInvalidArgument with one sentence. Does not look for the program.
NodePlan make_plan(const Options& options, const Machine& machine);

// "GPU 0 (NVIDIA H200) is shared by local ranks 0, 1": a line for each GPU that several ranks have.
std::vector<std::string> shared_gpus(const NodePlan& plan);

// The meeting of a job on one node, or what `--dry-run` supposes of several: each has as many ranks
// as this one. Chooses MASTER_PORT where the user did not.
Meeting supposed_meeting(const NodePlan& plan);

}  // namespace dl::launcher
