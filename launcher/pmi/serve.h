// Whether the ranks are to be served as MPI processes.
#pragma once

#include <string>

#include "launcher/cli/options.h"

namespace dl::launcher {

// `executable`: the program's file. Throws kInvalidArgument if it is linked to an MPI that dlrun
// cannot serve: each rank would be an MPI job of its own, of one process.
bool is_to_serve_pmi(const Options& options, const std::string& executable);

}  // namespace dl::launcher
