// How train_image trains and tests a model.
#pragma once

#include "collectives/api/process_group.h"
#include "examples/support/training/loop.h"
#include "examples/train_image/choices/task.h"
#include "examples/train_image/options.h"
#include "nn/data/dataset.h"
#include "nn/module/module.h"

namespace dl::examples {

struct ImageTraining {
  nn::Module& model;    // on `device`
  nn::Module* average;  // of the same kind, for --ema; else null
  const Task& task;
  const Options& options;
  Device device;
  const Ref<collectives::ProcessGroup>& group;
  Reporter& reporter;
  Profiling& profiling;
};

// Trains the model for --epochs epochs, as train() in loop.h.
Trained train(const ImageTraining& training);

// The share of samples whose largest logit is their label. The ranks share the work; each sample
// counts once for any number of them. Afterwards the model is in evaluation mode, and its buffers
// are rank 0's.
Tested test(nn::Module& model, const data::Dataset& dataset, const Options& options, Device device,
            collectives::ProcessGroup& group);

}  // namespace dl::examples
