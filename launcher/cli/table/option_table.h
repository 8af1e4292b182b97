// Every option of dlrun, in one table: the parser, --help, the manual page, the reference, shell
// completion, the PET_ variables and the refusals of torchrun's options all come from it.
//
// A new option is a row here and a field in its group (options.h). The row says how the value is
// read and, if each host of --hosts or of a SLURM allocation must know it, how it is passed on.
// option_text_test compares the manual and the reference with the table; with DLRUN_TEST_REWRITE=1
// in its environment it writes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/env.h"
#include "launcher/cli/options.h"

namespace dl::launcher {

enum class Group : std::uint8_t {
  kInformation,  // prints something and ends dlrun
  kStarted,
  kWhere,
  kMeet,
  kShown,
  kEnds,
  kTaken,    // accepted from other launchers' lines, without an effect
  kRefused,  // refused by name; `about`: what to do instead, a clause
};

enum class Origin : std::uint8_t { kTorchrun, kMpirun, kOwn };

// An option and the value that it was given.
struct Typed;

struct OptionRow {
  std::string_view name = {};  // "--nproc-per-node"; "-x" for an option without a long name
  char letter = 0;             // 'm' of -m; 0: none
  std::string_view also =
      {};  // other full spellings, separated by blanks; underscores count anyway
  std::string_view value = {};  // the value, as --help shows it; empty: a flag
  Group group = Group::kStarted;
  Origin origin = Origin::kOwn;
  // An option that is the same setting: if the line gives this one, its variable does not count.
  std::string_view overrides = {};
  std::string_view fallback = {};  // the default, as the value is typed; empty: none
  std::string_view help = {};      // one line
  std::string_view about = {};     // for the reference and the manual, Markdown; empty: as `help`
  void (*read)(Options& options, const Typed& typed) = nullptr;
  // The value for the agents that this dlrun starts on other hosts (remote/node_line.h). It returns
  // "" if they need none, and any text for a flag that is set. Null: the option concerns only the
  // dlrun that the user starts.
  std::string (*pass)(const Options& options) = nullptr;
  // Whether the default has any meaning for this job. `several`: the job has several nodes, started
  // by dlrun or by the user. Null: it always has.
  bool (*applies)(const Options& options, bool several) = nullptr;
  // Read if the line does not give the option; the first variable that is set counts.
  std::optional<env::Var> variable = std::nullopt;
  std::optional<env::Var> other_variable = std::nullopt;
  bool repeats = false;    // all occurrences count, not only the last
  bool is_of_app = false;  // each program of a line with several has its own

  bool is_flag() const { return value.empty(); }
};

struct Typed {
  const OptionRow* row = nullptr;
  std::string value;          // empty for a flag
  std::string_view variable;  // the variable that gave the value; empty: the line did

  // The name that the user knows: "--nnodes", or "PET_NNODES".
  std::string_view name() const { return variable.empty() ? row->name : variable; }
};

// All rows. Readers are called in this order.
std::span<const OptionRow> option_table();
// The row of this name. Throws kInternal if there is none.
const OptionRow& option_named(std::string_view name);

std::string_view title_of(Group group);

// Words of Open MPI's mpirun, of hydra (MPICH's) and of srun that dlrun does not have are refused
// by name; torchrun's words are rows of the table. Returns the sentence for a word without its
// value ("--ntasks", "-ppn"), which names the word to use here. nullopt: the word is not known.
std::optional<std::string> why_refused(std::string_view word);

}  // namespace dl::launcher
