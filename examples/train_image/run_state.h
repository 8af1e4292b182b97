// Saves and restores the position and the state of a run.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/api/process_group.h"
#include "examples/train_image/options.h"
#include "nn/amp/grad_scaler.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/module/module.h"
#include "nn/optim/optimizer.h"

namespace dl::examples {

struct Position {
  std::int64_t epoch = 0;  // from 0
  std::int64_t step = 0;   // taken in this epoch
  std::int64_t step_of_run = 0;
};

// With --checkpoint-dir; without it every member does nothing. All ranks make one and call the same
// members: rank 0 writes, every rank reads.
class RunState {
 public:
  struct Parts {
    nn::Module& model;
    optim::Optimizer& optimizer;
    amp::GradScaler& scaler;
  };
  RunState(const Options& options, Parts parts, const Ref<collectives::ProcessGroup>& group);

  // With --resume and a checkpoint: restores all parts and returns the checkpoint's position.
  // Throws kMismatch if it was saved with other settings or another number of ranks, and
  // kInvalidArgument if the folder holds checkpoints and --resume is not given.
  std::optional<Position> resume();
  // Sets the random numbers anew to those of the checkpoint that resume() found. A loader draws one
  // when an epoch begins, which a run that was stopped inside of it has drawn already.
  void restore_random() const;
  // Saves after every --checkpoint-every steps.
  void after_step(const Position& position);

 private:
  std::string settings() const;

  const Options& options_;
  Parts parts_;
  Ref<collectives::ProcessGroup> group_;
  std::optional<nn::CheckpointDir> checkpoints_{};
  nn::StateDict random_{};  // of this rank, in the checkpoint
};

}  // namespace dl::examples
