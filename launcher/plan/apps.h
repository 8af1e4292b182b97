// The programs of a job: what they have in common, how they are shown, and how they are started.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/plan/plan.h"
#include "launcher/process/start/start_process.h"

namespace dl::launcher {

// The -x and the --wdir that all programs have alike. The working directory is empty if they
// differ.
std::vector<Exported> common_exports(const std::vector<App>& apps);
std::optional<std::string> common_wdir(const std::vector<App>& apps);

// The absolute path of a --wdir. Throws kIo if dlrun's own working directory is gone.
std::string absolute_wdir(const std::string& wdir);

// "rank 0", "ranks 1 to 3": those of one of several programs.
std::string ranks_of_program(const std::vector<App>& apps, std::size_t program);
// "program: ./train --lr 1", or a line for each program: "program of ranks 0 to 3: ./train"; with
// ends of lines.
std::string programs_as_text(const std::vector<App>& apps);

// For the warden. `open_files`: the limit of the ranks.
RankPrograms programs_to_start(const NodePlan& plan, rlimit open_files);

}  // namespace dl::launcher
