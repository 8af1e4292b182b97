// dlrun as the agent of a remote node: a frontend without a terminal. Its orders and events travel
// over standard input and output, or over other descriptors (messages.h).
#pragma once

#include "core/base/system/unique_fd.h"
#include "launcher/process/own_process.h"

namespace dl::launcher::remote {

// Runs one node's part of the job that the frontend describes. Returns the exit code of this
// process, which says nothing about the job. Ends at once, with all that it has started, if the
// frontend is gone. `in`, `out`: the connection; empty: standard input and output.
int run_agent(CommandLine line, UniqueFd in, UniqueFd out);

}  // namespace dl::launcher::remote
