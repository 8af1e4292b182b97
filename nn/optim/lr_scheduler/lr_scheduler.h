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
// PyTorch; CosineAnnealingWarmRestarts, LambdaLR and OneCycleLR set the rate instead.
// Thread-safety: none; step() belongs on the thread that trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/optim/optimizer.h"
#include "nn/serialize/state_dict.h"

namespace dl::optim {

// The state of a parameter group's schedule.
struct LRMoment {
  std::size_t group;
  std::int64_t epoch;  // steps so far: 0 when the scheduler is made
  double base_lr;      // the group's initial_lr()
  double lr;           // before this step
};

class LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;

  // Sets the rates of the next epoch (or batch: what is counted is the caller's choice), after the
  // optimizer's step(). Throws kInvalidArgument if a parameter group was added meanwhile.
  void step();
  // Counts from 0 again, from the optimizer's initial_lr().
  void restart();

  // Calls of step() since the start.
  std::int64_t last_epoch() const noexcept { return last_epoch_; }
  // The rate of each group as the last step() left it.
  const std::vector<double>& get_last_lr() const noexcept { return last_lrs_; }
  Optimizer& optimizer() const noexcept { return *optimizer_; }

  // What step() changes, with PyTorch's names: last_epoch, base_lrs, _last_lr. Options are not in
  // it, and the rates that the optimizer uses are in the optimizer's state. load_state_dict()
  // throws kMismatch, and changes nothing then.
  virtual nn::StateDict state_dict() const;
  virtual void load_state_dict(const nn::StateDict& state);

 protected:
  LRScheduler(std::string_view name, Optimizer& optimizer);

  std::string_view name() const noexcept { return name_; }
  // Gives the optimizer the rates of last_epoch(); calls set_each() or keep_rates(). The final
  // class's constructor calls it for epoch 0.
  virtual void set_rates() = 0;
  // Sets each group's rate to rate(LRMoment), all of them or, if rate() throws, none.
  template <typename Rate>
  void set_each(const Rate& rate) {
    check_groups();
    std::vector<double> rates;
    for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
      rates.push_back(rate(LRMoment{
          .group = g, .epoch = last_epoch_, .base_lr = base_lrs_[g], .lr = optimizer_->lr(g)}));
    }
    for (std::size_t g = 0; g < rates.size(); ++g) optimizer_->lr(g) = rates[g];
    keep_rates();
  }
  // Takes the optimizer's rates for get_last_lr().
  void keep_rates();

 private:
  void check_groups() const;

  std::string_view name_;
  Optimizer* optimizer_;
  std::int64_t last_epoch_ = 0;
  std::vector<double> base_lrs_;  // of each group
  std::vector<double> last_lrs_;
};

}  // namespace dl::optim
