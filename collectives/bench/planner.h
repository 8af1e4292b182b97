// dlbench's side of plans (algorithms/plan.h): what a plan would do, and a plan for this machine.
#pragma once

#include <cstdio>

#include "collectives/algorithms/plan.h"
#include "collectives/bench/options.h"
#include "collectives/process_group.h"

namespace dl::collectives::bench {

// A row, or with --json an object, a size: the algorithm, and the time that the costs predict.
// Calls nothing. Throws kInvalidArgument for `floor`, which has no plan.
void explain(const Options& options, const Plan& plan, GroupShape shape, std::FILE* to);

// Measures the terms of the link that the group talks over, in some seconds, and writes them on
// rank 0 into the plan of --tune; other links and rules of a plan that is there stay. Collective.
// Returns the exit code.
int tune(ProcessGroup& group, const Options& options, int nodes);

}  // namespace dl::collectives::bench
