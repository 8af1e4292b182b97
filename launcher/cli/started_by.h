// Whether dlrun is one of several that srun or mpirun has started.
#pragma once

#include <string>

namespace dl::launcher {

// The sentence that says so and gives the line that makes one job of them; empty if dlrun was
// started alone. For a dlrun of one node: each would run a job of its own, and all the same work.
std::string one_of_several_jobs();

}  // namespace dl::launcher
