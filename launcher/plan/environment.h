// The environment of a rank: torchrun's contract, dlrun's own variables, and -x and --wdir.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"

namespace dl::launcher {

// Values that are known only once the job runs. --dry-run keeps the defaults, which set no
// variable.
struct Handles {
  int key_fd = -1;
  std::string key_file;
  int lifeline_fd = -1;
  int recorder_fd = -1;
  int pmi_fd = -1;
  std::string error_file;
  int progress_width = 0;
  std::string checkpoint;  // socket at which the rank asks whether to save; empty: none
};

// "NAME=value" entries, to be added to the environment of dlrun at its start.
std::vector<std::string> rank_environment(const NodePlan& plan, const Meeting& meeting,
                                          const LocalRank& rank, const Handles& handles);

// The variables of -x without a value that dlrun's own environment does not have, and that dlrun
// does not give to the ranks either.
std::vector<std::string> unset_exports(const NodePlan& plan);

// "--wdir /data: No such file or directory; make it, or give another", for an errno value.
std::string wdir_error(std::string_view wdir, int error);

// Applies the -x and --wdir that all programs of the job have alike to this process: sets the
// variables and changes the directory, as if dlrun had been started so. Ranks inherit both, and
// variables that dlrun itself reads (PATH, CUDA_VISIBLE_DEVICES) count with these values. Relative
// paths of dlrun's own files are resolved before. A --wdir of one program becomes absolute. Must be
// called before any thread exists. Throws kInvalidArgument.
void apply_process_options(Options& options);

}  // namespace dl::launcher
