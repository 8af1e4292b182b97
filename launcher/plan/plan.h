// Who runs where: everything about a job that is known before anything is started. JobPlan is the
// whole job's part, NodePlan one node's.
//
// Both are values, made once. What is found out only when the nodes have met (generation, order of
// the nodes, ports) is in Meeting; environment.h joins them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/bind/binding.h"
#include "launcher/cli/options.h"
#include "launcher/plan/machine.h"
#include "launcher/process/program.h"

namespace dl::launcher {

struct LocalRank {
  int local_rank = 0;
  Binding binding;
  std::vector<int> gpus;  // of NodePlan::gpus; empty: none is given out
};

struct Host {
  std::string name;  // as the kernel, the user or SLURM names it
  int slots = 1;     // ranks that run there; 0: the node counts them itself
};

// Which hosts a job runs on: this machine, --hosts or --hostfile, a SLURM allocation.
class HostSource {
 public:
  virtual ~HostSource() = default;
  // By node rank. Throws kInvalidArgument with one sentence.
  virtual std::vector<Host> hosts() const = 0;
};

// --nproc-per-node ranks on the machine that dlrun runs on.
class ThisMachine : public HostSource {
 public:
  ThisMachine(const Options& options, const Machine& machine)
      : options_(options), machine_(machine) {}
  std::vector<Host> hosts() const override;

 private:
  const Options& options_;
  const Machine& machine_;
};

// The hosts of --hosts and --hostfile. A host without a number of slots has --nproc-per-node ranks.
class HostList : public HostSource {
 public:
  explicit HostList(const Options& options) : options_(options) {}
  std::vector<Host> hosts() const override;

 private:
  const Options& options_;
};

struct JobPlan {
  std::string name;
  bool named = false;  // by the user
  std::string run;     // a name that no other run has; the job goes by node 0's;
                       // empty if one node keeps no logs
  int nnodes = 1;
  // One a node, by node rank; or this node's alone, if the user starts a dlrun on each node.
  std::vector<Host> hosts;
  std::string rdzv_endpoint;  // "host:port" at which several nodes meet; empty on one node
  std::vector<std::string> other_endpoints;  // further addresses of that place
  std::string master_addr;
  std::optional<int> master_port;  // as the user gave it
  int max_restarts = 0;
  std::string role = "default";      // of all ranks
  std::vector<std::string> program;  // with its interpreter, if it has one
};

// Whether a node listens where the nodes meet.
enum class Listens : std::uint8_t {
  kNo,
  kIfFree,  // unless another process of this host does already
  kYes,
};

struct NodePlan {
  JobPlan job;
  std::string host;   // as the node itself names it
  int node_rank = 0;  // -1: the nodes are numbered as they come
  Listens listens = Listens::kNo;
  std::string local_addr;  // at which other nodes reach this one; empty: found out
  bool virtual_local_rank = false;
  std::vector<LocalRank> ranks;
  bool has_mpirun_names = false;            // ranks find Open MPI's OMPI_COMM_WORLD_... as well
  bool serves_pmi = false;                  // the ranks are processes of MPICH or a relative
  int omp_num_threads = 1;                  // of a rank that is not bound
  std::vector<std::string> bindings_drawn;  // --report-bindings; lines
  std::vector<VisibleGpu> gpus;             // that a rank would see, if dlrun looked for them
  GpuPolicy gpu_policy = GpuPolicy::kLeave;
  std::string iface;               // empty: not given
  Program program;                 // what is executed, found along PATH, or why it cannot be
  bool wants_torch_store = false;  // see torch_program.h
  // A node that is lost may come back: a person, or what watches over it, starts its dlrun anew.
  bool awaits_lost_nodes = true;

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
  std::string store;         // "host:port"
  std::string run;           // names the folder under --log-dir
  bool torch_store = false;  // dlrun serves PyTorch's TCPStore at MASTER_PORT
};

// Whether `options` cannot be followed without knowing the GPUs, or the cores.
bool needs_gpus(const Options& options);
bool needs_topology(const Options& options);

// Throws kInvalidArgument with one sentence. That the program is there is not checked.
JobPlan make_job_plan(const Options& options, const HostSource& source);
// For a user who starts a dlrun on each node: this node's plan.
NodePlan make_plan(const Options& options, const Machine& machine);
// The part of node `node_rank` (-1: not numbered yet), to be made on that node. Throws
// kInvalidArgument.
NodePlan make_node_plan(const JobPlan& job, int node_rank, const Options& options,
                        const Machine& machine);

// Whether ranks find their numbers by Open MPI's names, too: a script for `mpirun -n` reads them.
bool has_mpirun_names(const Options& options);

// What the user should know of `options` on this node, a sentence each.
std::vector<std::string> remarks_on(const Options& options, const NodePlan& plan);

// "GPU 0 (NVIDIA H200) is shared by local ranks 0, 1": a line for each GPU that several ranks have.
std::vector<std::string> shared_gpus(const NodePlan& plan);

// The meeting of a job on one node, or what `--dry-run` supposes of several: each has as many ranks
// as this one. Chooses MASTER_PORT if the user did not.
Meeting supposed_meeting(const NodePlan& plan);

}  // namespace dl::launcher
