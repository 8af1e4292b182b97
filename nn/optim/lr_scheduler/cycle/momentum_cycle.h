// Helpers of OneCycleLR and CyclicLR for the momentum, which cycles against the learning rate.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/base/error.h"
#include "nn/optim/optimizer.h"

namespace dl::optim {

// Stores the range of the momentum in the optimizer, for all such schedulers.
inline void keep_momenta(Optimizer& optimizer, std::size_t group, double base, double max) {
  optimizer.scheduler_option(SchedulerOption::kBaseMomentum, group) = base;
  optimizer.scheduler_option(SchedulerOption::kMaxMomentum, group) = max;
}

inline void check_has_momentum(std::string_view scheduler, Optimizer& optimizer) {
  DL_CHECK(optimizer.momentum(0) != nullptr, kInvalidArgument,
           "{}: cycle_momentum needs an optimizer with momentum or betas; set cycle_momentum = "
           "false",
           scheduler);
}

}  // namespace dl::optim
