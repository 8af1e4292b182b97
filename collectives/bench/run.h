// Runs every case and every size, in place and out of place, as often as -N says.
#pragma once

#include <memory>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/bench/machine/gpu.h"
#include "collectives/bench/measure/options.h"
#include "collectives/bench/report/report.h"
#include "collectives/nccl/library/module.h"

namespace dl::collectives::bench {

// For measuring GPU memory. `nccl` is for tests; null: use open_module().
struct OnGpu {
  const Gpu* gpu = nullptr;  // null: memory of the CPU
  const nccl::Module* nccl = nullptr;
};

// Collective: every rank calls it, rank 0 with reports, the other ranks with an empty list. Returns
// the same exit code on all ranks: 1 if an element was wrong or NCCL_TESTS_MIN_BW was missed, else
// 0. SIGINT or SIGTERM ends it after the current size.
int run(ProcessGroup& group, const Options& options, const std::vector<std::string>& command,
        const std::vector<std::unique_ptr<Report>>& reports, const OnGpu& on = {});

}  // namespace dl::collectives::bench
