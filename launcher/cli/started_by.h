// Whether srun or mpirun has started several copies of dlrun.
#pragma once

#include <string>

namespace dl::launcher {

// Returns a sentence that says so and gives the line that starts one job instead; empty if dlrun
// was started once. To be called only for a job of one node: then each copy would run the whole
// job.
std::string one_of_several_jobs();

}  // namespace dl::launcher
