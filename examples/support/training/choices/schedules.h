// The schedules of the learning rate. A new one is a row in schedules.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::examples {

// A run's learning rate, from step to step of the optimizer.
struct SchedulePlan {
  std::string schedule = "none";
  double lr = 0;
  std::int64_t steps = 0;       // of the whole run
  std::int64_t warmup = 0;      // steps in which the rate rises first
  std::int64_t step_every = 1;  // of "step", at least 1
  double gamma = 0.1;           // of "step"
  double min_lr = 0;            // of "cosine": the rate at the end
};

struct ScheduleRow {
  std::string_view name;
  bool warms_up;  // may follow a warm-up
  // Plans the steps of `rest`, which has no warm-up.
  std::unique_ptr<optim::LRScheduler> (*make)(optim::Optimizer& optimizer,
                                              const SchedulePlan& rest);  // may be null
};

std::span<const ScheduleRow> schedules();
// Throws kInvalidArgument with the names that there are.
const ScheduleRow& find_schedule(std::string_view name);

// Sets the optimizer's rate; the optimizer must outlive it. Does nothing for --schedule none.
class RateSchedule {
 public:
  RateSchedule(const SchedulePlan& plan, optim::Optimizer& optimizer);

  bool changes_rate() const noexcept { return !schedulers_.empty(); }
  // After each step of the optimizer.
  void step();
  nn::StateDict state_dict() const;
  void load_state_dict(const nn::StateDict& state);

 private:
  // The last one steps; the others are its parts.
  std::vector<std::unique_ptr<optim::LRScheduler>> schedulers_{};
};

}  // namespace dl::examples
