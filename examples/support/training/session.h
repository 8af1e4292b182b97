// What a training program does before and after its loop.
#pragma once

#include <string>

#include "collectives/api/process_group.h"
#include "core/device/stream.h"
#include "examples/support/training/loop.h"
#include "examples/support/training/report/profiling.h"
#include "examples/support/training/report/reporter.h"
#include "examples/support/training/run_options.h"
#include "nn/module/module.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples {

Reporter::Config reporter_config(const RunOptions& run, const collectives::ProcessGroup& group,
                                 std::string unit);
// "2 ranks with 1 thread each on cuda:0"
std::string describe_ranks(const collectives::ProcessGroup& group, Device device);

struct Outcome {
  nn::Module& model;
  Scores scores;
  double per_s = 0;
  nn::Metadata metadata{};  // of the file of --save
};
// Makes sure that all ranks hold the same parameters, saves them, and shows the profile. Returns
// what is left to show. Throws kMismatch if the ranks differ, and kIo.
Result conclude(const Outcome& outcome, const RunOptions& run, collectives::ProcessGroup& group,
                const Profiling& profiling, Reporter& reporter);

}  // namespace dl::examples
