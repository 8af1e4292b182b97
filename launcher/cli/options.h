// What the user typed: dlrun's command line, parsed and checked, and nothing more.
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

namespace dl::launcher {

enum class GpuPolicy : std::uint8_t {
  kLeave,  // dlrun does not look at GPUs; the ranks have the environment's
  kKeep,   // each rank sees all GPUs, and is told which are its own
  kScope,  // each rank sees its own only
};

enum class Mpi : std::uint8_t {
  kAuto,  // served if the program's file says that it is linked to MPICH or a relative
  kPmi1,  // served
  kNone,  // not served
};

// A host of --hosts or --hostfile. A host that is named several times has one entry.
struct HostSlots {
  std::string host;          // a name or an address, without brackets
  std::optional<int> slots;  // ranks that it takes; empty: the user gave no number

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// A variable of -x.
struct Exported {
  std::string name;
  std::optional<std::string> value;  // empty: the one in dlrun's own environment

  friend bool operator==(const Exported&, const Exported&) = default;
};

// Some of a rank's two output streams.
struct Streams {
  bool out = false;
  bool err = false;

  friend bool operator==(const Streams&, const Streams&) = default;
};

// --redirects and --tee: one choice for all local ranks, or one for each that is named.
struct StreamChoice {
  Streams all;
  std::map<int, Streams> by_local_rank;  // others have none then

  Streams of(int local_rank) const {
    if (by_local_rank.empty()) return all;
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? Streams() : found->second;
  }
};

// Who gave an option its value.
enum class SetBy : std::uint8_t { kDefault, kLine, kVariable, kSlurm };
struct Setting {
  std::string option;  // "--nnodes"
  std::string value;   // as it was written; "on" of a flag
  SetBy by = SetBy::kDefault;
  std::string variable;  // kVariable: "PET_NNODES"
};

struct Options {
  int nnodes = 1;
  std::optional<int> node_rank;      // empty: on several nodes they are numbered as they come
  std::string nproc_per_node = "1";  // a number from 1, "auto", "cpu" or "gpu"
  std::optional<int> np;             // ranks of the whole job
  std::vector<HostSlots> hosts;
  std::string ssh = "ssh";      // with its options, as a shell line; starts agents on `hosts`
  std::string rdzv_endpoint;    // HOST:PORT of the first agent; empty: not given
  std::optional<bool> is_host;  // whether this node listens there; empty: if the address is its own
  std::string rdzv_id;          // name of the job; empty: made up
  std::string role = "default";
  std::string local_addr;   // at which other nodes reach this one; empty: found out
  std::string master_addr;  // empty: chosen
  std::optional<int> master_port;
  std::string iface;  // that the ranks of this node listen on; empty: they choose
  std::string key_file;
  std::chrono::milliseconds join_timeout{std::chrono::minutes(10)};
  std::chrono::milliseconds grace{std::chrono::seconds(10)};
  int max_restarts = 0;
  std::optional<std::chrono::milliseconds> timeout;  // of the whole job
  std::vector<int> signals_to_handle;                // each ends the job and is passed on as it is
  std::string log_dir;
  Mpi mpi = Mpi::kAuto;
  // Requests to save and end (dl::should_checkpoint()).
  bool preempt_on_term = false;
  bool preempt_on_usr2 = false;
  std::optional<std::chrono::milliseconds> preempt_before;  // the end of SLURM's allocation
  // When that is; found out at the start.
  std::optional<std::chrono::system_clock::time_point> preempt_at;
  std::chrono::milliseconds preempt_wait{std::chrono::seconds(25)};
  bool may_be_preempted() const { return preempt_on_term || preempt_on_usr2 || preempt_before; }
  // preempt_wait, if the job may be preempted.
  std::optional<std::chrono::milliseconds> patience_with_saving() const {
    return may_be_preempted() ? std::optional(preempt_wait) : std::nullopt;
  }
  // "4711.0" if this dlrun is one of those that a step of srun has started, one a node.
  std::string slurm_step;
  bool says_nodes = false;  // the line names nodes or says --standalone
  Bind bind = Bind::kNone;
  MapBy map_by = MapBy::kCore;
  bool report_bindings = false;
  std::optional<int> gpus_per_rank;
  std::optional<GpuPolicy> gpu_policy;
  bool virtual_local_rank = false;              // LOCAL_RANK is 0 on every rank
  StreamChoice redirects;                       // kept and not shown,
  StreamChoice tee;                             // unless they are shown as well
  std::vector<int> local_ranks_filter;          // whose output is shown; empty: all
  std::string line_prefix = "[rank ${rank}] ";  // line_prefix.h
  int report_fd = -1;                           // takes the page of a failed job; -1: stderr does
  bool timestamps = false;                      // each line begins with its time
  bool verbose = false;
  bool dry_run = false;
  bool json = false;
  std::string wdir;  // of the ranks; empty: dlrun's
  std::vector<Exported> exports;
  std::vector<std::string> program;  // that is executed, with its arguments
  std::string script;                // that an interpreter in `program` reads; empty: none
  std::vector<Setting> settings;     // all options that have a value, in the order of the table
  std::vector<std::string> remarks;  // lines to be said before the start

  // Which streams of a local rank dlrun shows; the others are kept in the logs, if there are any.
  Streams shown_streams(int local_rank) const;
};

// Something to print and be done: --help, --version, --print-completion.
struct Information {
  std::string text;
};

// `arguments` without the program's own name. What they do not say, torchrun's PET_ variables may
// (option_variables.h). Throws Error{kInvalidArgument} with one sentence for bad usage.
std::variant<Options, Information> parse_options(const std::vector<std::string>& arguments);

}  // namespace dl::launcher
