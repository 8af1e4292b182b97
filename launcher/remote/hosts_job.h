// A job on the hosts of --hosts or --hostfile, from the user's line to dlrun's exit code.
#pragma once

#include "launcher/cli/options.h"
#include "launcher/process/own_process.h"

namespace dl::launcher::remote {

// Whether --hosts or --hostfile names a host that is not this machine.
bool is_for_hosts(const Options& options);

// Throws Error: kInvalidArgument for bad usage, anything else for what goes wrong before the first
// agent is started.
int run_on_hosts(const Options& options, CommandLine line);

}  // namespace dl::launcher::remote
