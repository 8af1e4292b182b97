// Plans: everything about a job that is known before anything is started. JobPlan is the whole
// job's part, NodePlan one node's.
//
// Both are values, made once. Meeting has what is known only when the nodes have met (generation,
// order of the nodes, ports). environment.h joins the three.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/bind/binding.h"
#include "launcher/cli/options.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/process/start/program.h"
#include "rendezvous/rank_numbers.h"

namespace dl::launcher {

struct LocalRank {
  int local_rank = 0;
  Binding binding;
  std::vector<int> gpus;  // indices into NodePlan::gpus; empty: none
};

struct Host {
  std::string name;  // as the kernel, the user or SLURM names it
  int slots = 1;     // ranks that run there; 0: the node counts them itself
};

// The hosts on which a job runs: this machine, --hosts or --hostfile, or a SLURM allocation.
class HostSource {
 public:
  virtual ~HostSource() = default;
  // The hosts by node rank. Throws kInvalidArgument with one sentence.
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
  JobOptions started;
  EndOptions end;
  std::string name;
  bool named = false;  // the user gave the job a name
  std::string run;     // a name that no other run has; node 0's counts;
                       // empty if one node keeps no logs
  int nnodes = 1;
  rendezvous::RankBy rank_by = rendezvous::RankBy::kSlot;
  // One for each node, by node rank. If the user starts a dlrun on each node: only this node's.
  std::vector<Host> hosts;
  std::string rdzv_endpoint;  // "host:port" at which several nodes meet; empty on one node
  std::vector<std::string> other_endpoints;  // further addresses of this endpoint
  bool is_endpoint_given = true;             // false: it is --master-addr and --master-port
  std::string master_addr;
  std::optional<int> master_port;  // as the user gave it

  // True if the nodes meet at the port that the user gave for MASTER_PORT. The rendezvous then
  // leaves it to the ranks once the nodes have met.
  bool shares_master_port() const;
  // The ranks of each of `hosts`, by local rank; none of a host that counts them itself.
  std::vector<std::vector<int>> ranks_of_hosts() const;
};

// Whether a node listens at the rendezvous endpoint.
enum class Listens : std::uint8_t {
  kNo,
  kIfFree,  // listens unless another process of this host does
  kYes,
};

struct NodePlan {
  JobPlan job;
  WhereOptions where;
  MeetOptions meet;
  std::string host;   // the node's own name for itself
  int node_rank = 0;  // -1: the nodes are numbered as they come
  Listens listens = Listens::kNo;
  std::vector<LocalRank> ranks;
  bool has_mpirun_names = false;            // ranks find Open MPI's OMPI_COMM_WORLD_... as well
  Mpi mpi = Mpi::kNone;                     // as what this node's programs must be served
  bool is_oversubscribed = false;           // there are more ranks than usable cores
  int omp_num_threads = 1;                  // of a rank that is not bound
  std::vector<std::string> bindings_drawn;  // --report-bindings; lines
  std::vector<VisibleGpu> gpus;  // GPUs that a rank would see, if dlrun has looked for them
  GpuPolicy gpu_policy = GpuPolicy::kLeave;
  // The program of each of the job's apps: found along PATH, or why it cannot be executed. Programs
  // that no rank of this node runs are empty.
  std::vector<Program> programs;
  bool wants_torch_store = false;  // see torch_program.h
  // True if a lost node may come back: a person, or a program that watches over it, restarts its
  // dlrun.
  bool awaits_lost_nodes = true;

  int local_world_size() const { return static_cast<int>(ranks.size()); }
  const Program& program_of(int rank) const { return programs.at(job.started.app_of(rank)); }
  // The first program that cannot be executed; null: there is none.
  const Program* bad_program() const;
};

// The values on which all nodes agree when they meet, as one node has them.
struct Meeting {
  std::uint64_t generation = 0;
  std::vector<int> ranks = {0};  // of this node, by local rank; ascending
  int world_size = 1;
  int group_rank = 0;
  std::string master_addr;
  std::string own_addr;             // address by which other nodes reach this node; "" on one node
  std::string gloo_interface;       // for GLOO_SOCKET_IFNAME; "": none is needed
  std::string mpi_interface;        // for Open MPI's TCP; "": it chooses
  bool serves_pmix = false;         // on several nodes: all ranks are processes of Open MPI
  std::vector<std::string> met_at;  // addresses of node 0 at which nodes have reached it; numeric
  int master_port = 0;
  std::string store;         // "host:port"
  std::string run;           // names the folder under --log-dir
  bool torch_store = false;  // dlrun serves PyTorch's TCPStore at MASTER_PORT

  int local_rank_of(int rank) const;  // of a rank of this node
};

// True if the options can only be followed with knowledge of the GPUs, or of the cores.
bool needs_gpus(const Options& options);
bool needs_topology(const WhereOptions& where);

// Throws kInvalidArgument with one sentence. Does not check that the program exists.
JobPlan make_job_plan(const Options& options, const HostSource& source);
// This node's plan, if the user starts a dlrun on each node.
NodePlan make_plan(const Options& options, const Machine& machine);
// The plan of node `node_rank` (-1: not numbered yet). To be called on that node. Throws
// kInvalidArgument.
NodePlan make_node_plan(const JobPlan& job, int node_rank, const Options& options,
                        const Machine& machine);

// True if ranks also find their numbers by Open MPI's names, for scripts that `mpirun -n` starts.
bool has_mpirun_names(const Options& options);

// Remarks for the user about `options` on this node, a sentence each.
std::vector<std::string> remarks_on(const Options& options, const NodePlan& plan);

// "GPU 0 (NVIDIA H200) is shared by local ranks 0 and 1": a line for each GPU that several ranks
// have.
std::vector<std::string> shared_gpus(const NodePlan& plan);

// The meeting of a job on one node. For several nodes, the meeting that `--dry-run` assumes: each
// node has as many ranks as this one. Chooses MASTER_PORT if the user did not.
Meeting supposed_meeting(const NodePlan& plan);

}  // namespace dl::launcher
