// dlbench and plans (algorithms/plan.h): explains a plan, and makes one for this machine.
#pragma once

#include <cstdio>

#include "collectives/algorithms/plan.h"
#include "collectives/api/process_group.h"
#include "collectives/bench/measure/options.h"

namespace dl::collectives::bench {

// Prints a row a size (or with --json an object): the algorithm, and the time that the costs
// predict. Makes no calls. Throws kInvalidArgument for `floor`, which has no plan.
void explain(const Options& options, const Plan& plan, GroupShape shape, std::FILE* to);

// Measures the cost terms of the group's link, in some seconds, and writes them on rank 0 into the
// plan of --tune; other links and rules of an existing plan are kept. Collective. Returns the exit
// code.
int tune(ProcessGroup& group, const Options& options, int nodes);

}  // namespace dl::collectives::bench
