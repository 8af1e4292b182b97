#include "nn/optim/lr_scheduler/compose/chained.h"

#include <utility>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/optim/lr_scheduler/compose/scheduler_list.h"
#include "nn/optim/lr_scheduler/scheduler_state.h"

namespace dl::optim {
namespace {

constexpr const char* kChainedName = "ChainedScheduler";

}  // namespace

ChainedScheduler::ChainedScheduler(std::vector<LRScheduler*> schedulers)
    : schedulers_(std::move(schedulers)) {
  DL_CHECK(!schedulers_.empty(), kInvalidArgument, "{}: there is no scheduler, wanted at least one",
           kChainedName);
  DL_CHECK(schedulers_.front() != nullptr, kInvalidArgument,
           "{}: scheduler 0 is null or another optimizer's", kChainedName);
  check_schedulers(kChainedName, schedulers_, optimizer());
  keep_rates();
}

void ChainedScheduler::step() {
  for (LRScheduler* const scheduler : schedulers_) scheduler->step();
  keep_rates();
}

void ChainedScheduler::keep_rates() {
  last_lrs_.clear();
  for (std::size_t g = 0; g < optimizer().group_count(); ++g) {
    last_lrs_.push_back(optimizer().lr(g));
  }
}

nn::StateDict ChainedScheduler::state_dict() const {
  nn::StateDict state{{"_last_lr", tensor(last_lrs_, {.dtype = DType::kF64})}};
  append_states(schedulers_, state);
  return state;
}

void ChainedScheduler::load_state_dict(const nn::StateDict& state) {
  // To restore if a scheduler throws for its part.
  nn::StateDict before;
  append_states(schedulers_, before);
  auto last_lrs = SchedulerState(kChainedName, state).numbers("_last_lr", last_lrs_.size());
  try {
    load_states(schedulers_, state);
  } catch (...) {
    load_states(schedulers_, before);
    throw;
  }
  last_lrs_ = std::move(last_lrs);
}

void ChainedScheduler::load_value(const nn::Value& state) {
  if (holds_tensors_only(state)) return load_state_dict(state.as_state_dict());
  SavedScheduler saved(kChainedName, state);
  std::vector<double> last_lrs = saved.numbers("_last_lr", last_lrs_.size());
  const TakeOver take_over = prepare_states(kChainedName, schedulers_, saved);
  saved.finish();
  take_over();
  last_lrs_ = std::move(last_lrs);
}

}  // namespace dl::optim
