// The schedules of the learning rate. A new one is a row in schedules.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "examples/train_image/options.h"
#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::examples {

// What a schedule needs to know of a run; lengths are in steps of the optimizer.
struct ScheduleSettings {
  std::int64_t steps = 1;       // after the warm-up
  std::int64_t step_every = 1;  // of "step"
  double gamma = 0.1;           // of "step"
  double lr = 0;
};

struct ScheduleRow {
  std::string_view name;
  bool warms_up;  // heeds --warmup-epochs
  std::unique_ptr<optim::LRScheduler> (*make)(optim::Optimizer& optimizer,
                                              const ScheduleSettings& settings);  // may be null
};

std::span<const ScheduleRow> schedules();
// Throws kInvalidArgument with the names that there are.
const ScheduleRow& find_schedule(std::string_view name);

// Sets the optimizer's rate; the optimizer must outlive it. Does nothing for --schedule none.
class RateSchedule {
 public:
  RateSchedule(const Options& options, optim::Optimizer& optimizer, std::int64_t steps_an_epoch);

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
