// What the user typed: dlrun's command line, parsed and checked, and nothing more.
//
// Names are torchrun's where torchrun has one; each may be written with dashes or underscores.
// Options of torchrun that dlrun does not have are refused by name (refused_options.h).
#pragma once

#include <chrono>
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

struct Options {
  int nnodes = 1;
  std::optional<int> node_rank;
  std::string nproc_per_node = "1";  // a number from 1, "auto", "cpu" or "gpu"
  std::string rdzv_endpoint;         // HOST:PORT of the first agent; empty: not given
  std::string rdzv_id;               // name of the job; empty: made up
  std::string master_addr;           // empty: chosen
  std::optional<int> master_port;
  std::string iface;  // that the ranks of this node listen on; empty: they choose
  std::string key_file;
  std::chrono::milliseconds join_timeout{std::chrono::minutes(10)};
  std::chrono::milliseconds grace{std::chrono::seconds(10)};
  int max_restarts = 0;
  std::string log_dir;
  Mpi mpi = Mpi::kAuto;
  Bind bind = Bind::kNone;
  MapBy map_by = MapBy::kCore;
  bool report_bindings = false;
  std::optional<int> gpus_per_rank;
  std::optional<GpuPolicy> gpu_policy;
  bool prefix = true;  // each line says who wrote it
  bool dry_run = false;
  bool json = false;
  std::vector<std::string> program;  // with its arguments, as typed
  std::vector<std::string> remarks;  // lines to be said before the start
};

// Something to print and be done: --help, --version.
struct Information {
  std::string text;
};

// `arguments` without the program's own name. What they do not say, torchrun's PET_ variables may
// (torchrun_environment.h). Throws Error{kInvalidArgument} with one sentence for
// bad usage.
std::variant<Options, Information> parse_options(std::vector<std::string> arguments);

}  // namespace dl::launcher
