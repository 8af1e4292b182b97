// Applies the options about dlrun's own process: -x and --wdir.
#pragma once

#include "launcher/cli/options.h"

namespace dl::launcher {

// Sets the variables of -x and changes to --wdir, as if dlrun had been started so. Ranks inherit
// both, and variables that dlrun itself reads (PATH, CUDA_VISIBLE_DEVICES) count with these values.
// Relative paths of dlrun's own files are resolved before. Must be called before any thread exists.
// Throws kInvalidArgument.
void take_surroundings(Options& options);

}  // namespace dl::launcher
