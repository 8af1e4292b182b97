// LRScheduler: changes an optimizer's learning rates in each step, with torch.optim.lr_scheduler's
// formulas.
//
//     optim::SGD opt(model.parameters(), {.lr = 0.1});
//     optim::StepLR scheduler(opt, {.step_size = 30, .gamma = 0.1});
//     for (int epoch = 0; epoch < 90; ++epoch) {
//       train(model, opt);
//       scheduler.step();
//     }
//
// Make a scheduler after the optimizer's last parameter group. It holds a reference to the
// optimizer, which must outlive it. Two schedulers of one optimizer multiply their factors, as in
// PyTorch, except for schedulers that set the rate; their comments say so. A step() before the
// optimizer's first step() skips the schedule's first rate, and logs a warning as PyTorch does.
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

// The arguments of a schedule for one parameter group.
struct LRMoment {
  Optimizer& optimizer;
  std::size_t group;
  std::int64_t epoch;  // steps so far: 0 in the constructor
  double base_lr;      // the group's initial_lr()
  double lr;           // before this step
  bool initial;        // called by the constructor: lr is the optimizer's own
  std::int64_t steps;  // like epoch, but never reset
};

class LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;

  // Sets the rates of the next epoch (or batch, as the caller counts), after the optimizer's
  // step(). Throws kInvalidArgument if a parameter group was added meanwhile.
  void step();

  // Calls of step() since the start, or since a SequentialLR activated this scheduler.
  std::int64_t last_epoch() const noexcept { return last_epoch_; }
  // The rate of each group as the last step() left it.
  const std::vector<double>& get_last_lr() const noexcept { return last_lrs_; }
  Optimizer& optimizer() const noexcept { return *optimizer_; }

  // The values that step() changes, with PyTorch's names: last_epoch, base_lrs, _last_lr,
  // _step_count. It has no options; the optimizer's state has the rates in use. load_state_dict()
  // throws kMismatch, and then changes nothing; it also accepts states without _step_count.
  virtual nn::StateDict state_dict() const;
  virtual void load_state_dict(const nn::StateDict& state);
  // Loads a value from nn::load_pth(): dlrun's state_dict(), or that of PyTorch's scheduler of the
  // same name. The latter has options, which replace those given here, as in PyTorch; functions are
  // kept. Throws kMismatch also for an option that this scheduler does not have, and
  // kInvalidArgument for a bad option, and then changes nothing.
  template <std::same_as<nn::Value> V>
  void load_state_dict(const V& state) {
    load_value(state);
  }
  // For schedulers that contain others: checks PyTorch's state, and returns a function that loads
  // it.
  virtual TakeOver prepare(const nn::Value& state);

 protected:
  LRScheduler(std::string_view name, Optimizer& optimizer);

  std::string_view name() const noexcept { return name_; }
  // True during the constructor's step.
  bool is_initial() const noexcept { return initial_; }
  // The options' part of prepare(). Null if there are none.
  virtual TakeOver prepare_options(SavedScheduler& /*saved*/) { return {}; }
  // Sets the optimizer's rates for last_epoch(); calls set_each() or keep_rates().
  virtual void set_rates() = 0;
  // Sets the rates of epoch 0; a SequentialLR calls it when it activates this scheduler.
  virtual void begin_rates() { set_rates(); }
  // Undoes the constructor's step, because SequentialLR runs the first step itself.
  virtual void undo_first_step() { --last_epoch_; }
  // Sets the rates of epoch 0. To be called by the constructor of each final class.
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
  // For a schedule with its own base rates; one for each group.
  void set_base_lrs(std::vector<double> rates) { base_lrs_ = std::move(rates); }
  // Stores the optimizer's rates for get_last_lr().
  void keep_rates();

 private:
  friend class SequentialLR;

  void load_value(const nn::Value& state);
  void advance();
  // Sets epoch 0, which does not count as a step.
  void begin();
  void check_groups() const;

  std::string_view name_;
  Optimizer* optimizer_;
  std::int64_t last_epoch_ = -1;
  std::int64_t step_count_ = 0;  // including the constructor's step
  bool initial_ = false;
  std::vector<double> base_lrs_;  // one for each group
  std::vector<double> last_lrs_;
};

}  // namespace dl::optim
