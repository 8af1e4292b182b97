// One rank's part in training and in testing a model.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/api/process_group.h"
#include "examples/support/training/report/profiling.h"
#include "examples/support/training/report/reporter.h"
#include "examples/train_image/choices/task.h"
#include "examples/train_image/options.h"
#include "nn/data/dataset.h"
#include "nn/module/module.h"

namespace dl::examples {

struct Training {
  nn::Module& model;    // on `device`
  nn::Module* average;  // of the same kind, for --ema; else null
  const Task& task;
  const Options& options;
  Device device;
  const Ref<collectives::ProcessGroup>& group;
  Reporter& reporter;
  Profiling& profiling;
};

struct Trained {
  std::int64_t samples = 0;  // of all ranks
  double seconds = 0;        // spent in steps, on this rank
  // What the evaluation after the last epoch found; unset if the run evaluates at its end only.
  std::optional<double> test_accuracy{};

  double samples_per_s() const noexcept {
    return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  }
};

// Trains the model for options.epochs epochs; every rank calls it, and all end with the same
// parameters. Ranks visit disjoint samples in an order that depends on seed and epoch only; an
// incomplete last batch is dropped. Throws kInvalidArgument if the set does not fill one step, or
// with the module's name if the loss is no number; and what ranks and data throw.
Trained train(const Training& training);

// The share of samples whose largest logit is their label. The ranks share the work; each sample
// counts once for any number of them. Afterwards the model is in evaluation mode, and its buffers
// are rank 0's.
double accuracy(nn::Module& model, const data::Dataset& dataset, const Options& options,
                Device device, collectives::ProcessGroup& group);

}  // namespace dl::examples
