#include "nn/optim/lr_scheduler/compose/scheduler_list.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/base/error.h"

namespace dl::optim {
namespace {

std::string prefix_of(std::size_t scheduler) {
  return fmt::format("_schedulers.{}.", scheduler);
}

}  // namespace

void check_schedulers(std::string_view owner, const std::vector<LRScheduler*>& schedulers,
                      const Optimizer& optimizer) {
  for (std::size_t i = 0; i < schedulers.size(); ++i) {
    DL_CHECK(schedulers[i] != nullptr && &schedulers[i]->optimizer() == &optimizer,
             kInvalidArgument, "{}: scheduler {} is null or another optimizer's", owner, i);
  }
}

void append_states(const std::vector<LRScheduler*>& schedulers, nn::StateDict& state) {
  for (std::size_t i = 0; i < schedulers.size(); ++i) {
    for (const nn::NamedTensor& entry : schedulers[i]->state_dict()) {
      state.push_back({prefix_of(i) + entry.name, entry.tensor});
    }
  }
}

void load_states(const std::vector<LRScheduler*>& schedulers, const nn::StateDict& state) {
  for (std::size_t i = 0; i < schedulers.size(); ++i) {
    const std::string prefix = prefix_of(i);
    nn::StateDict part;
    for (const nn::NamedTensor& entry : state) {
      if (entry.name.starts_with(prefix)) {
        part.push_back({entry.name.substr(prefix.size()), entry.tensor});
      }
    }
    schedulers[i]->load_state_dict(part);
  }
}

TakeOver prepare_states(std::string_view owner, const std::vector<LRScheduler*>& schedulers,
                        SavedScheduler& saved) {
  const nn::Value* const states = saved.find("_schedulers");
  DL_CHECK(
      states != nullptr && states->is_list() && states->as_list().size() == schedulers.size(),
      kMismatch,
      "{}: load_state_dict: the state has no list \"_schedulers\" of {} states; does it belong "
      "to another scheduler?",
      owner, schedulers.size());
  std::vector<TakeOver> all;
  for (std::size_t i = 0; i < schedulers.size(); ++i) {
    all.push_back(schedulers[i]->prepare(states->as_list()[i]));
  }
  return [all = std::move(all)] {
    for (const TakeOver& take_over : all) take_over();
  };
}

}  // namespace dl::optim
