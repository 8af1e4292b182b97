// Helpers of OneCycleLR and CyclicLR for the momentum, which cycles against the learning rate.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/base/error.h"
#include "nn/optim/optimizer.h"

namespace dl::optim {

// Adam's first beta or SGD's momentum; null if the optimizer has neither.
inline double* momentum_of(Optimizer& optimizer, std::size_t group) {
  double* const beta1 = optimizer.find_option("betas.0", group);
  return beta1 != nullptr ? beta1 : optimizer.find_option("momentum", group);
}

// Stores the range of the momentum in the optimizer, for all such schedulers.
inline void keep_momenta(Optimizer& optimizer, std::size_t group, double base, double max) {
  optimizer.scheduler_option(SchedulerOption::kBaseMomentum, group) = base;
  optimizer.scheduler_option(SchedulerOption::kMaxMomentum, group) = max;
}

inline void check_has_momentum(std::string_view scheduler, Optimizer& optimizer) {
  DL_CHECK(momentum_of(optimizer, 0) != nullptr, kInvalidArgument,
           "{}: cycle_momentum needs an optimizer with momentum or betas; set cycle_momentum = "
           "false",
           scheduler);
}

}  // namespace dl::optim
