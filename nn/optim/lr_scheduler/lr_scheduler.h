// LRScheduler: changes an optimizer's learning rates from step to step, torch.optim.lr_scheduler's
// formulas.
//
//     optim::SGD opt(model.parameters(), {.lr = 0.1});
//     optim::StepLR scheduler(opt, {.step_size = 30, .gamma = 0.1});
//     for (int epoch = 0; epoch < 90; ++epoch) {
//       train(model, opt);
//       scheduler.step();
//     }
//
// A scheduler is made after the optimizer's last parameter group and holds a reference to the
// optimizer, which must outlive it. Two schedulers of one optimizer multiply their factors, as in
// PyTorch; CosineAnnealingWarmRestarts, CyclicLR, LambdaLR and OneCycleLR set the rate instead.
// The first step() before the optimizer's first step() skips the schedule's first rate: a warning
// in the log says so, as PyTorch's.
// Thread-safety: none; step() belongs on the thread that trains.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/optim/lr_scheduler/saved_scheduler.h"
#include "nn/optim/optimizer.h"
#include "nn/serialize/state_dict.h"

namespace dl::optim {

// The state of a parameter group's schedule.
struct LRMoment {
  Optimizer& optimizer;
  std::size_t group;
  std::int64_t epoch;  // steps so far: 0 when the scheduler is made
  double base_lr;      // the group's initial_lr()
  double lr;           // before this step
  bool initial;        // the scheduler is being made: the rate is the optimizer's own
  std::int64_t steps;  // as epoch, but never set back
};

class LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;

  // Sets the rates of the next epoch (or batch: what is counted is the caller's choice), after the
  // optimizer's step(). Throws kInvalidArgument if a parameter group was added meanwhile.
  void step();

  // Calls of step() since the start, or since a SequentialLR came to this scheduler.
  std::int64_t last_epoch() const noexcept { return last_epoch_; }
  // The rate of each group as the last step() left it.
  const std::vector<double>& get_last_lr() const noexcept { return last_lrs_; }
  Optimizer& optimizer() const noexcept { return *optimizer_; }

  // What step() changes, with PyTorch's names: last_epoch, base_lrs, _last_lr, _step_count. Options
  // are not in it, and the rates that the optimizer uses are in the optimizer's state.
  // load_state_dict() throws kMismatch, and changes nothing then; it reads states without
  // _step_count, too.
  virtual nn::StateDict state_dict() const;
  virtual void load_state_dict(const nn::StateDict& state);
  // Takes what nn::load_pth() has read: our state_dict(), or that of PyTorch's scheduler of the
  // same name. The latter brings its options, which replace those given here, as in PyTorch;
  // functions stay. Throws kMismatch also for an option that this scheduler does not have, and
  // kInvalidArgument for a bad option; nothing is changed then.
  template <std::same_as<nn::Value> V>
  void load_state_dict(const V& state) {
    load_value(state);
  }
  // For schedulers that contain others: checks PyTorch's state, and returns what takes it over.
  virtual TakeOver prepare(const nn::Value& state);

 protected:
  LRScheduler(std::string_view name, Optimizer& optimizer);

  std::string_view name() const noexcept { return name_; }
  // Whether the constructor's step is under way.
  bool is_initial() const noexcept { return initial_; }
  // The options' part of prepare(). Null if there are none.
  virtual TakeOver prepare_options(SavedScheduler& /*saved*/) { return {}; }
  // Gives the optimizer the rates of last_epoch(); calls set_each() or keep_rates().
  virtual void set_rates() = 0;
  // What a SequentialLR asks for when it comes to this scheduler: the rates of epoch 0.
  virtual void begin_rates() { set_rates(); }
  // Takes back the step of the constructor: the SequentialLR that is made now begins instead.
  virtual void undo_first_step() { --last_epoch_; }
  // The step to epoch 0; the final class's constructor takes it.
  void take_first_step();
  // Sets each group's rate to rate(LRMoment), all of them or, if rate() throws, none.
  template <typename Rate>
  void set_each(const Rate& rate) {
    check_groups();
    std::vector<double> rates;
    for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
      rates.push_back(rate(LRMoment{.optimizer = *optimizer_,
                                    .group = g,
                                    .epoch = last_epoch_,
                                    .base_lr = base_lrs_[g],
                                    .lr = optimizer_->lr(g),
                                    .initial = initial_,
                                    .steps = step_count_ - 1}));
    }
    for (std::size_t g = 0; g < rates.size(); ++g) optimizer_->lr(g) = rates[g];
    keep_rates();
  }
  // For a schedule with rates of its own to count from; one for each group.
  void set_base_lrs(std::vector<double> rates) { base_lrs_ = std::move(rates); }
  // Takes the optimizer's rates for get_last_lr().
  void keep_rates();

 private:
  friend class SequentialLR;

  void load_value(const nn::Value& state);
  void advance();
  // Epoch 0, which counts as no step.
  void begin();
  void check_groups() const;

  std::string_view name_;
  Optimizer* optimizer_;
  std::int64_t last_epoch_ = -1;
  std::int64_t step_count_ = 0;  // with the constructor's
  bool initial_ = false;
  std::vector<double> base_lrs_;  // of each group
  std::vector<double> last_lrs_;
};

}  // namespace dl::optim
