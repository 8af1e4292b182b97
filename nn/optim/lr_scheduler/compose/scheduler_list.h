// Helpers of SequentialLR and ChainedScheduler: checks of schedulers, and their states under
// PyTorch's names, "_schedulers.<i>.<name>". The schedulers are borrowed.
#pragma once

#include <string_view>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"
#include "nn/serialize/state_dict.h"

namespace dl::optim {

// Throws kInvalidArgument if a scheduler is null or belongs to another optimizer.
void check_schedulers(std::string_view owner, const std::vector<LRScheduler*>& schedulers,
                      const Optimizer& optimizer);
void append_states(const std::vector<LRScheduler*>& schedulers, nn::StateDict& state);
// Throws kMismatch if a scheduler's part is wrong; the schedulers before it are then loaded
// already.
void load_states(const std::vector<LRScheduler*>& schedulers, const nn::StateDict& state);
// LRScheduler::prepare() of all, for PyTorch's list "_schedulers". Throws kMismatch.
TakeOver prepare_states(std::string_view owner, const std::vector<LRScheduler*>& schedulers,
                        SavedScheduler& saved);

}  // namespace dl::optim
