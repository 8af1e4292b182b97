// One rank's part in training: the loop over epochs and steps, with tests of the model, checkpoints
// and what is shown.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collectives/api/process_group.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/support/training/report/profiling.h"
#include "examples/support/training/report/reporter.h"
#include "examples/support/training/run_options.h"
#include "examples/support/training/step.h"
#include "nn/data/dataset.h"
#include "nn/module/module.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples {

struct Tested {
  Scores scores{};
  double mark = 0;  // the better the model, the higher
};

// When a model may be tested.
struct Moment {
  std::int64_t epoch = 0;  // from 1
  std::int64_t step_of_run = 0;
  bool ends_epoch = false;
  bool ends_run = false;
};

struct Training {
  StepOptions step;
  const data::Dataset& dataset;  // of samples (input, target)
  const RunOptions& run;
  std::string settings;    // all options that decide what a step computes
  std::int64_t steps = 0;  // of the run; 0: those of run.epochs epochs
  // Speeds are shown in units (Reporter::Config); a sample has so many.
  std::int64_t units_a_sample = 1;
  // The rates of a run with so many steps an epoch and in all. May throw, before the first step.
  std::function<SchedulePlan(std::int64_t steps_an_epoch, std::int64_t steps)> schedule;
  std::function<bool(const Moment& moment)> tests_at;
  // Tests the model, or its average, on all ranks; may leave it in evaluation mode.
  std::function<Tested(nn::Module& model)> test;
  bool tests_within_epochs = false;
  nn::Metadata best_metadata{};  // of best.safetensors, beside epoch and scores
  Device device;
  const Ref<collectives::ProcessGroup>& group;
  Reporter& reporter;
  Profiling& profiling;
};

struct Trained {
  std::int64_t units = 0;  // of all ranks
  double seconds = 0;      // spent in steps, on this rank
  // What the test after the last step found; unset if there was none.
  std::optional<Scores> scores{};

  double per_s() const noexcept { return seconds > 0 ? static_cast<double>(units) / seconds : 0; }
};

// Every rank calls it, and all end with the same parameters. Ranks visit disjoint samples in an
// order that depends on seed and epoch only; an incomplete last batch is dropped. Throws
// kInvalidArgument if the set does not fill one step, or with the module's name if the loss is no
// number; and what ranks, data and the functions throw.
Trained train(const Training& training);

}  // namespace dl::examples
