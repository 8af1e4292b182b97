// Decides whether dlrun serves the ranks as MPI processes.
#pragma once

#include "launcher/cli/options.h"
#include "launcher/process/start/program.h"

namespace dl::launcher {

// Throws kInvalidArgument if the program is linked to an MPI that dlrun cannot serve: each rank
// would be an MPI job of one process.
bool is_to_serve_pmi(const Options& options, const Program& program);

}  // namespace dl::launcher
