#include "nn/optim/lr_scheduler/compose/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "nn/optim/lr_scheduler/compose/scheduler_list.h"

namespace dl::optim {

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler("SequentialLR", optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  DL_CHECK(milestones_.size() + 1 == schedulers_.size(), kInvalidArgument,
           "SequentialLR: {} schedulers and {} milestones, wanted one milestone fewer than "
           "schedulers",
           schedulers_.size(), milestones_.size());
  DL_CHECK(std::ranges::is_sorted(milestones_, std::less_equal()), kInvalidArgument,
           "SequentialLR: milestones {} do not rise", fmt::join(milestones_, ", "));
  check_schedulers("SequentialLR", schedulers_, optimizer);
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    optimizer.lr(g) = optimizer.initial_lr(g);
  }
  undo_first_step();
  take_first_step();
}

void SequentialLR::undo_first_step() {
  for (LRScheduler* const scheduler : schedulers_) scheduler->undo_first_step();
}

std::size_t SequentialLR::current() const {
  const auto next = std::ranges::upper_bound(milestones_, last_epoch());
  return static_cast<std::size_t>(next - milestones_.begin());
}

void SequentialLR::set_rates() {
  const std::size_t i = current();
  if (last_epoch() == 0) {
    schedulers_[i]->take_first_step();
  } else if (i > 0 && milestones_[i - 1] == last_epoch()) {
    schedulers_[i]->begin();
  } else if (is_initial()) {
    schedulers_[i]->advance();  // like step(), but the optimizer cannot have stepped yet
  } else {
    schedulers_[i]->step();
  }
  keep_rates();
}

void SequentialLR::begin_rates() {
  schedulers_[current()]->begin();
  keep_rates();
}

nn::StateDict SequentialLR::state_dict() const {
  nn::StateDict state = LRScheduler::state_dict();
  append_states(schedulers_, state);
  return state;
}

void SequentialLR::load_state_dict(const nn::StateDict& state) {
  // To restore if a scheduler throws for its part.
  const nn::StateDict before = state_dict();
  try {
    load_all(state);
  } catch (...) {
    load_all(before);
    throw;
  }
}

TakeOver SequentialLR::prepare_options(SavedScheduler& saved) {
  std::vector<std::int64_t> milestones = milestones_;
  saved.take("_milestones", milestones);
  DL_CHECK(milestones.size() == milestones_.size() &&
               std::ranges::is_sorted(milestones, std::less_equal()),
           kMismatch,
           "SequentialLR: load_state_dict: the state has the milestones {}, wanted {} that rise",
           fmt::join(milestones, ", "), milestones_.size());
  return [this, milestones = std::move(milestones),
          take_all = prepare_states("SequentialLR", schedulers_, saved)]() mutable {
    milestones_.swap(milestones);
    take_all();
  };
}

void SequentialLR::load_all(const nn::StateDict& state) {
  LRScheduler::load_state_dict(state);
  load_states(schedulers_, state);
}

}  // namespace dl::optim
