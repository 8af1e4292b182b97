// dlbench's --explain and --tune: explain a plan (algorithms/plan.h), and make one for this
// machine. One thread.
#pragma once

#include "collectives/algorithms/plan.h"
#include "collectives/api/process_group.h"
#include "collectives/bench/measure/options.h"

namespace dl::collectives::bench {

// Prints for each size the algorithm, and the time that the plan's costs predict: a row, or with
// --json an object. Makes no calls of a group. Throws kInvalidArgument for an operation without a
// plan (`floor`).
void explain(const Options& options, const Plan& plan, GroupShape shape);

// Collective: measures the cost terms of the group's link, which takes under 10 s. Rank 0 writes
// them into the plan file of --tune; the file's other links and its rules are kept. Returns the
// exit code.
int tune(ProcessGroup& group, const Options& options, int nodes);

}  // namespace dl::collectives::bench
