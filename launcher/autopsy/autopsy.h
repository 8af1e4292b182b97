// `dlrun autopsy`: reads the flight recorders that a job left after a failure or on request, and
// shows them as one page for a person, or as JSON for a program.
#pragma once

#include <string>
#include <vector>

#include "launcher/autopsy/case.h"
#include "launcher/cli/subcommand/subcommand.h"

namespace dl::launcher::autopsy {

// The culprit, then a table of the ranks, then the files that could not be read. Lines without line
// breaks.
std::vector<std::string> page(const Case& from);

// docs/reference/dlrun.md, "dlrun autopsy", has the members.
std::string json(const Case& from);

// Prints the page, or JSON, and returns dlrun's exit code: 0, or 1 if nothing could be read.
int run(const SubcommandLine& line);

}  // namespace dl::launcher::autopsy
