// --profile: records some steps of training, after the first ones.
#pragma once

#include <cstdint>
#include <memory>

#include "core/profiler/profile.h"
#include "examples/support/training/report/reporter.h"
#include "examples/support/training/run_options.h"

namespace dl::examples {

// Does nothing unless the options ask for it.
class Profiling {
 public:
  explicit Profiling(const RunOptions& options) : options_(options) {}

  // Call it before the first of `steps` steps. Throws kInvalidArgument if none of them would be
  // recorded.
  void start(std::int64_t steps);
  // Call it after each step.
  void step();
  // Call it after the last step.
  void stop();
  // Rank 0 shows the operations and a breakdown of a step's time; every rank writes its trace if
  // there is a folder for it. Throws kIo if it cannot be written.
  void finish(Reporter& reporter) const;

 private:
  const RunOptions& options_;
  std::unique_ptr<profiler::Profile> profile_;
};

}  // namespace dl::examples
