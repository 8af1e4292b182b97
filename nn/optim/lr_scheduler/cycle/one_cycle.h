// OneCycleLR: up to max_lr and down to almost nothing in one run, with the momentum the other way
// (Smith and Topin 2018), torch.optim.lr_scheduler.OneCycleLR's formulas.
//
//     optim::OneCycleLR scheduler(opt, {.max_lr = {0.1}, .total_steps = epochs * batches});
//     scheduler.step();  // after each batch, after opt.step()
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::optim {

struct OneCycleLROptions {
  std::vector<double> max_lr;               // one for all groups, or each
  std::int64_t total_steps;                 // at least 1; a later step() is refused
  double pct_start = 0.3;                   // the share of the steps in which the rate rises
  std::string anneal_strategy = "cos";      // or "linear"
  bool cycle_momentum = true;               // of SGD's momentum or Adam's first beta
  std::vector<double> base_momentum{0.85};  // at max_lr; one for all groups, or each
  std::vector<double> max_momentum{0.95};   // at the start and the end
  double div_factor = 25;                   // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;            // the last one is the first / final_div_factor
  bool three_phase = false;  // down to the first rate as fast as up, then to the last
};

class OneCycleLR final : public LRScheduler {
 public:
  // Sets the optimizer's initial_lr() and scheduler_option()s, which a later OneCycleLR or CyclicLR
  // changes for this one, too, as in PyTorch. Throws kInvalidArgument for a bad option, and for
  // cycle_momentum with an optimizer that has neither momentum nor betas.
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 private:
  // From one rate and momentum to another, up to a step.
  struct Phase {
    double end;
    SchedulerOption from_lr, to_lr;
    SchedulerOption from_momentum, to_momentum;
  };

  void set_rates() override;
  TakeOver prepare_options(SavedScheduler& saved) override;
  static Phase phase_of(const nn::Value& saved, double begin);
  double between(SchedulerOption first, SchedulerOption last, std::size_t group,
                 double share) const;

  OneCycleLROptions options_;
  std::vector<Phase> phases_;
};

}  // namespace dl::optim
