#include "nn/optim/lr_scheduler/lr_scheduler.h"

#include "core/base/error.h"
#include "core/base/log/warn_once.h"
#include "core/tensor/factories.h"
#include "nn/optim/lr_scheduler/scheduler_state.h"

namespace dl::optim {

LRScheduler::LRScheduler(std::string_view name, Optimizer& optimizer)
    : name_(name), optimizer_(&optimizer) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    base_lrs_.push_back(optimizer.initial_lr(g));
  }
  optimizer.watch_steps();
}

void LRScheduler::step() {
  dl::detail::not_repeatable("a scheduler's step() is called", RepeatedBy::kNothing);
  if (step_count_ == 1 && !optimizer_->stepped_while_watched()) {
    warn_once(
        "{}: step() comes before the optimizer's first step(), so that the schedule's first rate "
        "is skipped; call the optimizer's step() first",
        name_);
  }
  advance();
}

void LRScheduler::advance() {
  ++last_epoch_;
  ++step_count_;
  try {
    set_rates();
  } catch (...) {
    --last_epoch_;
    --step_count_;
    throw;
  }
}

void LRScheduler::take_first_step() {
  step_count_ = 0;
  initial_ = true;
  try {
    advance();
  } catch (...) {
    initial_ = false;
    throw;
  }
  initial_ = false;
}

void LRScheduler::begin() {
  last_epoch_ = 0;
  begin_rates();
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
          {"_last_lr", tensor(last_lrs_, {.dtype = DType::kF64})},
          {"_step_count", tensor(step_count_)}};
}

void LRScheduler::load_state_dict(const nn::StateDict& state) {
  const SchedulerState given(name_, state);
  const auto last_epoch = given.integer("last_epoch");
  auto base_lrs = given.numbers("base_lrs", base_lrs_.size());
  auto last_lrs = given.numbers("_last_lr", last_lrs_.size());
  const bool counted = nn::find(state, "_step_count") != nullptr;
  step_count_ = counted ? given.integer("_step_count") : last_epoch + 1;
  last_epoch_ = last_epoch;
  base_lrs_ = std::move(base_lrs);
  last_lrs_ = std::move(last_lrs);
}

void LRScheduler::load_value(const nn::Value& state) {
  if (holds_tensors_only(state)) return load_state_dict(state.as_state_dict());
  prepare(state)();
}

TakeOver LRScheduler::prepare(const nn::Value& state) {
  SavedScheduler saved(name_, state);
  TakeOver take_options = prepare_options(saved);
  const std::int64_t last_epoch = saved.integer("last_epoch");
  // PyTorch's SequentialLR has no base_lrs and no _step_count.
  std::vector<double> base_lrs = base_lrs_;
  if (saved.find("base_lrs") != nullptr) base_lrs = saved.numbers("base_lrs", base_lrs_.size());
  std::vector<double> last_lrs = saved.numbers("_last_lr", last_lrs_.size());
  std::int64_t step_count = last_epoch + 1;
  saved.take("_step_count", step_count);
  saved.finish();
  return [this, last_epoch, step_count, base_lrs = std::move(base_lrs),
          last_lrs = std::move(last_lrs), take_options = std::move(take_options)]() mutable {
    if (take_options) take_options();
    last_epoch_ = last_epoch;
    step_count_ = step_count;
    base_lrs_.swap(base_lrs);
    last_lrs_.swap(last_lrs);
  };
}

}  // namespace dl::optim
