// What the line says about dlrun's own process: -x and --wdir.
#pragma once

#include "launcher/cli/options.h"

namespace dl::launcher {

// Sets the variables of -x and enters --wdir, as if dlrun had been started so; ranks inherit both,
// and what dlrun itself reads (PATH, CUDA_VISIBLE_DEVICES) follows them. Files of dlrun's own that
// have a relative path are resolved first. For a process without threads. Throws kInvalidArgument.
void take_surroundings(Options& options);

}  // namespace dl::launcher
