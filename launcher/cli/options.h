// Options: dlrun's command line, parsed and checked, and nothing more.
//
// option_table.h has every option. Names are torchrun's if torchrun has the option, else mpirun's.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/bind/binding.h"
#include "launcher/process/signal_meaning.h"
#include "rendezvous/first_cause/restart_policy.h"
#include "rendezvous/rank_numbers.h"

namespace dl::launcher {

enum class GpuPolicy : std::uint8_t {
  kLeave,  // dlrun does not look at GPUs; ranks inherit CUDA_VISIBLE_DEVICES
  kKeep,   // each rank sees all GPUs, and finds its own in DLRUN_GPUS
  kScope,  // each rank sees only its own GPUs
};

enum class Mpi : std::uint8_t {
  kAuto,  // served as the MPI wants it that the program loads
  kPmi1,  // MPICH and its relatives
  kPmix,  // Open MPI
  kNone,  // not served
};

// What a PyTorch program gets that asks for Gloo.
enum class TorchBackend : std::uint8_t { kGloo, kDlrun };

// A host of --hosts or --hostfile. A host that is named several times has one entry.
struct HostSlots {
  std::string host;          // a name or an address, without brackets
  std::optional<int> slots;  // number of its ranks; empty: the user gave none

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// A variable of -x.
struct Exported {
  std::string name;
  std::optional<std::string> value;  // empty: the value in dlrun's own environment

  friend bool operator==(const Exported&, const Exported&) = default;
};

// Some of a rank's two output streams.
struct Streams {
  bool out = false;
  bool err = false;

  friend bool operator==(const Streams&, const Streams&) = default;
};

// --redirects and --tee: one choice for all local ranks, or one for each named rank.
struct StreamChoice {
  Streams all;
  std::map<int, Streams> by_local_rank;  // if not empty, other ranks have no streams

  Streams of(int local_rank) const {
    if (by_local_rank.empty()) return all;
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? Streams() : found->second;
  }

  friend bool operator==(const StreamChoice&, const StreamChoice&) = default;
};

// The source of an option's value.
enum class SetBy : std::uint8_t { kDefault, kLine, kVariable };
struct Setting {
  std::string option;  // "--nnodes"
  std::string value;   // as it was written; "on" for a flag
  SetBy by = SetBy::kDefault;
  std::string variable = {};  // kVariable: "PET_NNODES"
  // kLine: its line in the file of --app, "job.app:3"; empty: it is on dlrun's own line.
  std::string place = {};
  // The index of the program that it is for; empty: it is for all programs.
  std::optional<std::size_t> program = std::nullopt;

  friend bool operator==(const Setting&, const Setting&) = default;
};

// The options in the groups of --help. A part of dlrun takes the whole group that it needs.

// A program of the job, and what belongs to it alone. A line has several with `:` between them, or
// in the file of --app.
struct App {
  std::optional<int> np;             // its ranks; given if the job has several programs
  std::vector<std::string> program;  // what is executed, with its arguments
  std::string script;                // the file that an interpreter in `program` reads; empty: none
  std::string wdir;                  // working directory of its ranks; empty: dlrun's
  std::vector<Exported> exports;
  bool is_here = true;  // false: no rank of this node runs it

  friend bool operator==(const App&, const App&) = default;
};

// What is started.
struct JobOptions {
  std::string nproc_per_node = "1";  // a number from 1, "auto", "cpu" or "gpu"
  std::optional<int> np;             // ranks of the whole job
  std::string role = "default";
  Mpi mpi = Mpi::kAuto;
  std::optional<TorchBackend> torch_backend;  // empty: not given
  // At least one. The ranks of the first one come first, whatever nodes they are on.
  std::vector<App> apps = std::vector<App>(1);

  // The index of the program that a rank runs.
  std::size_t app_of(int rank) const;
  // How many ranks run each program.
  std::vector<int> ranks_of_apps(int world_size) const;

  friend bool operator==(const JobOptions&, const JobOptions&) = default;
};

// The placement of the job: the nodes, and the CPUs and GPUs of each.
struct WhereOptions {
  int nnodes = 1;
  std::optional<int> node_rank;  // empty: several nodes are numbered as they come
  bool says_nodes = false;       // the line names nodes or says --standalone
  // "4711.0" if a step of srun has started this dlrun and one on each other node.
  std::string slurm_step;
  // The ranks of each node of SLURM's allocation, if its tasks count them; else empty.
  std::vector<int> slurm_tasks;
  // Ranks of each node; with --np at most so many. Empty: not given (--map-by ppr:N:node).
  std::optional<int> most_per_node;
  std::vector<HostSlots> hosts;
  std::string ssh = "ssh";  // with its options, as a shell line; starts agents on `hosts`
  rendezvous::RankBy rank_by = rendezvous::RankBy::kSlot;
  Bind bind = Bind::kNone;
  MapBy map_by = MapBy::kCore;
  bool report_bindings = false;
  std::optional<int> gpus_per_rank;
  std::optional<GpuPolicy> gpu_policy;
  bool virtual_local_rank = false;  // LOCAL_RANK is 0 on every rank

  friend bool operator==(const WhereOptions&, const WhereOptions&) = default;
};

// How nodes and ranks meet.
struct MeetOptions {
  std::string rdzv_endpoint;    // HOST:PORT of the first agent; empty: not given
  std::optional<bool> is_host;  // whether this node listens there; empty: yes if it is its address
  std::string rdzv_id;          // name of the job; empty: made up
  std::chrono::milliseconds join_timeout{std::chrono::minutes(10)};
  std::string key_file;
  std::string iface;        // the interface on which this node's ranks listen; empty: they choose
  std::string local_addr;   // by which other nodes reach this node; empty: chosen at the start
  std::string master_addr;  // empty: chosen
  std::optional<int> master_port;

  friend bool operator==(const MeetOptions&, const MeetOptions&) = default;
};

// What is shown and kept.
struct OutputOptions {
  std::string log_dir;
  StreamChoice redirects;                       // streams that are kept and not shown,
  StreamChoice tee;                             // unless they are named here
  std::vector<int> local_ranks_filter;          // local ranks whose output is shown; empty: all
  std::string line_prefix = "[rank ${rank}] ";  // line_prefix.h
  int report_fd = -1;                           // receives the page of a failed job; -1: stderr
  bool timestamps = false;                      // each line begins with its time
  bool verbose = false;
  bool dry_run = false;
  bool json = false;

  // Which streams of a local rank dlrun shows; the others are kept in the logs, if there are any.
  Streams shown_streams(int local_rank) const;

  friend bool operator==(const OutputOptions&, const OutputOptions&) = default;
};

// How it ends.
struct EndOptions {
  std::chrono::milliseconds grace{std::chrono::seconds(10)};
  std::optional<std::chrono::milliseconds> linger;  // empty: as `grace`
  // Requests to save and end (dl::should_checkpoint()).
  bool preempt_on_term = false;
  bool preempt_on_usr2 = false;
  // Time before the end of SLURM's allocation.
  std::optional<std::chrono::milliseconds> preempt_before;
  // The point in time for preempt_before, determined at the start.
  std::optional<std::chrono::system_clock::time_point> preempt_at;
  std::chrono::milliseconds preempt_wait{std::chrono::seconds(25)};
  std::optional<std::chrono::milliseconds> timeout;  // of the whole job
  int max_restarts = 0;
  rendezvous::OnFailure on_failure = rendezvous::OnFailure::kStop;
  std::vector<int> signals_to_handle;  // each ends the job and goes to the ranks unchanged
  std::vector<int> forwarded_signals;  // each goes to the ranks, and the job goes on

  std::chrono::milliseconds longest_linger() const { return linger.value_or(grace); }
  bool may_be_preempted() const { return preempt_on_term || preempt_on_usr2 || preempt_before; }
  // The other ranks live on when one fails.
  bool keeps_others() const { return on_failure == rendezvous::OnFailure::kKeep; }
  // preempt_wait, if the job may be preempted.
  std::optional<std::chrono::milliseconds> patience_with_saving() const {
    return may_be_preempted() ? std::optional(preempt_wait) : std::nullopt;
  }
  // What a signal to dlrun means, with --forward-signals.
  SignalMeaning meaning_of(int signal) const;

  friend bool operator==(const EndOptions&, const EndOptions&) = default;
};

struct Options {
  JobOptions job;
  WhereOptions where;
  MeetOptions meet;
  OutputOptions output;
  EndOptions end;
  // All options that have a value, in the order of the table; then those of further programs. A
  // default is among them if it is in force.
  std::vector<Setting> settings;
  std::vector<std::string> remarks;  // lines to show before the start

  friend bool operator==(const Options&, const Options&) = default;
};

// Text to print before dlrun exits: --help, --version, --print-completion.
struct Information {
  std::string text;
};

// `arguments`: without the program's own name. torchrun's PET_ variables count for options that
// they do not give (option_variables.h). Throws Error{kInvalidArgument} with one sentence for bad
// usage.
std::variant<Options, Information> parse_options(const std::vector<std::string>& arguments);

// For an agent. `programs`: a line for each program of the job, as in a file of --app; `arguments`
// have none. Options::job has no number of ranks.
Options parse_agent_options(const std::vector<std::string>& arguments,
                            const std::vector<std::vector<std::string>>& programs);

}  // namespace dl::launcher
