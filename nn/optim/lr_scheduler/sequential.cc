#include "nn/optim/lr_scheduler/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace dl::optim {
namespace {

std::string prefix_of(std::size_t scheduler) {
  return fmt::format("_schedulers.{}.", scheduler);
}

}  // namespace

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
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    DL_CHECK(schedulers_[i] != nullptr && &schedulers_[i]->optimizer() == &optimizer,
             kInvalidArgument, "SequentialLR: scheduler {} is null or another optimizer's", i);
  }
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
    schedulers_[i]->advance();  // as step(), but the optimizer cannot have stepped yet
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
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    for (const nn::NamedTensor& entry : schedulers_[i]->state_dict()) {
      state.push_back({prefix_of(i) + entry.name, entry.tensor});
    }
  }
  return state;
}

void SequentialLR::load_state_dict(const nn::StateDict& state) {
  // To go back to if a scheduler refuses its part.
  const nn::StateDict before = state_dict();
  try {
    load_all(state);
  } catch (...) {
    load_all(before);
    throw;
  }
}

void SequentialLR::load_all(const nn::StateDict& state) {
  LRScheduler::load_state_dict(state);
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    const std::string prefix = prefix_of(i);
    nn::StateDict part;
    for (const nn::NamedTensor& entry : state) {
      if (entry.name.starts_with(prefix)) {
        part.push_back({entry.name.substr(prefix.size()), entry.tensor});
      }
    }
    schedulers_[i]->load_state_dict(part);
  }
}

}  // namespace dl::optim
