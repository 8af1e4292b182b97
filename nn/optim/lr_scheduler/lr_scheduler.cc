#include "nn/optim/lr_scheduler/lr_scheduler.h"

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/optim/lr_scheduler/scheduler_state.h"

namespace dl::optim {

LRScheduler::LRScheduler(std::string_view name, Optimizer& optimizer)
    : name_(name), optimizer_(&optimizer) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    base_lrs_.push_back(optimizer.initial_lr(g));
  }
}

void LRScheduler::step() {
  ++last_epoch_;
  try {
    set_rates();
  } catch (...) {
    --last_epoch_;
    throw;
  }
}

void LRScheduler::restart() {
  last_epoch_ = 0;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) optimizer_->lr(g) = base_lrs_[g];
  set_rates();
}

void LRScheduler::check_groups() const {
  DL_CHECK(optimizer_->group_count() == base_lrs_.size(), kInvalidArgument,
           "{}: the optimizer has {} parameter groups, {} when the scheduler was made; make the "
           "scheduler after the last add_param_group()",
           name_, optimizer_->group_count(), base_lrs_.size());
}

void LRScheduler::keep_rates() {
  last_lrs_.clear();
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) last_lrs_.push_back(optimizer_->lr(g));
}

nn::StateDict LRScheduler::state_dict() const {
  return {{"last_epoch", tensor(last_epoch_)},
          {"base_lrs", tensor(base_lrs_, {.dtype = DType::kF64})},
          {"_last_lr", tensor(last_lrs_, {.dtype = DType::kF64})}};
}

void LRScheduler::load_state_dict(const nn::StateDict& state) {
  const SchedulerState given(name_, state);
  const auto last_epoch = given.integer("last_epoch");
  auto base_lrs = given.numbers("base_lrs", base_lrs_.size());
  auto last_lrs = given.numbers("_last_lr", last_lrs_.size());
  last_epoch_ = last_epoch;
  base_lrs_ = std::move(base_lrs);
  last_lrs_ = std::move(last_lrs);
}

}  // namespace dl::optim
