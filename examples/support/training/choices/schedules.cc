#include "examples/support/training/choices/schedules.h"

#include <algorithm>

#include "examples/support/training/choices/rows.h"
#include "nn/optim/lr_scheduler/compose/sequential.h"
#include "nn/optim/lr_scheduler/cycle/cycle.h"
#include "nn/optim/lr_scheduler/schedules.h"

namespace dl::examples {
namespace {

using Scheduler = std::unique_ptr<optim::LRScheduler>;

// The first rate of a warm-up, as a part of --lr.
constexpr double kWarmupStart = 0.01;

Scheduler no_schedule(optim::Optimizer& /*optimizer*/, const SchedulePlan& /*rest*/) {
  return nullptr;
}

Scheduler make_step(optim::Optimizer& optimizer, const SchedulePlan& s) {
  return std::make_unique<optim::StepLR>(
      optimizer, optim::StepLROptions{.step_size = s.step_every, .gamma = s.gamma});
}

Scheduler make_cosine(optim::Optimizer& optimizer, const SchedulePlan& s) {
  return std::make_unique<optim::CosineAnnealingLR>(
      optimizer, optim::CosineAnnealingLROptions{.T_max = s.steps, .eta_min = s.min_lr});
}

Scheduler make_one_cycle(optim::Optimizer& optimizer, const SchedulePlan& s) {
  // --momentum stays as it is given. A captured CUDA graph would not read one that changes.
  return std::make_unique<optim::OneCycleLR>(
      optimizer,
      optim::OneCycleLROptions{.max_lr = {s.lr}, .total_steps = s.steps, .cycle_momentum = false});
}

constexpr ScheduleRow kSchedules[] = {
    {"none", false, no_schedule},
    {"step", true, make_step},
    {"cosine", true, make_cosine},
    {"one-cycle", false, make_one_cycle},
};

}  // namespace

std::span<const ScheduleRow> schedules() {
  return kSchedules;
}

const ScheduleRow& find_schedule(std::string_view name) {
  return find_row(schedules(), "--schedule", name);
}

RateSchedule::RateSchedule(const SchedulePlan& plan, optim::Optimizer& optimizer) {
  // The first rate of a schedule is that of its constructor, so the warm-up is made first.
  Scheduler warm;
  if (plan.warmup > 0) {
    warm = std::make_unique<optim::LinearLR>(
        optimizer,
        optim::LinearLROptions{.start_factor = kWarmupStart, .total_iters = plan.warmup});
  }
  SchedulePlan rest = plan;
  rest.steps = std::max<std::int64_t>(1, plan.steps - plan.warmup);
  rest.warmup = 0;
  Scheduler main = find_schedule(plan.schedule).make(optimizer, rest);
  if (!main) return;
  if (!warm) {
    schedulers_.push_back(std::move(main));
    return;
  }
  auto both = std::make_unique<optim::SequentialLR>(
      optimizer, std::vector<optim::LRScheduler*>{warm.get(), main.get()},
      std::vector<std::int64_t>{plan.warmup});
  schedulers_.push_back(std::move(warm));
  schedulers_.push_back(std::move(main));
  schedulers_.push_back(std::move(both));
}

void RateSchedule::step() {
  if (!schedulers_.empty()) schedulers_.back()->step();
}

nn::StateDict RateSchedule::state_dict() const {
  return schedulers_.empty() ? nn::StateDict{} : schedulers_.back()->state_dict();
}

void RateSchedule::load_state_dict(const nn::StateDict& state) {
  if (!schedulers_.empty()) schedulers_.back()->load_state_dict(state);
}

}  // namespace dl::examples
