// Saves and restores the position and the state of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collectives/api/process_group.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/support/training/run_options.h"
#include "nn/amp/grad_scaler.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/module/module.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/swa_utils.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples {

struct Position {
  std::int64_t epoch = 0;  // from 0
  std::int64_t step = 0;   // taken in this epoch
  std::int64_t step_of_run = 0;
  std::optional<double> best{};  // the highest mark of an evaluation so far
};

// With --checkpoint-dir; without it every member does nothing. All ranks make one and call the same
// members: rank 0 writes, every rank reads.
class RunState {
 public:
  struct Parts {
    nn::Module& model;
    optim::Optimizer& optimizer;
    amp::GradScaler& scaler;
    RateSchedule& schedule;
    optim::swa_utils::AveragedModel* average;  // null without one
  };
  // `settings`: all options that decide what a step computes.
  RunState(const RunOptions& run, const std::string& settings, Parts parts,
           const Ref<collectives::ProcessGroup>& group);

  // With --resume and a checkpoint: restores all parts and returns the checkpoint's position.
  // Throws kMismatch if it was saved with other settings or another number of ranks, and
  // kInvalidArgument if the folder holds checkpoints and --resume is not given.
  std::optional<Position> resume();
  // Whether after_step() saves.
  bool saves_after(std::int64_t step_of_run) const noexcept;
  // Saves after every --checkpoint-every steps.
  void after_step(const Position& position);
  // Rank 0 replaces best.safetensors, beside the checkpoints, by this model.
  void keep_best(const nn::Module& model, const nn::Metadata& metadata) const;

 private:
  const RunOptions& run_;
  std::string settings_;  // with the number of ranks
  Parts parts_;
  Ref<collectives::ProcessGroup> group_;
  std::optional<nn::CheckpointDir> checkpoints_{};
};

}  // namespace dl::examples
