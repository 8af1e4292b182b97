// OneCycleLR: raises the rate to max_lr and lowers it to almost 0 in one run, with the momentum in
// the opposite direction (Smith and Topin 2018), with the formulas of
// torch.optim.lr_scheduler.OneCycleLR.
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
  std::int64_t total_steps;                 // at least 1; a later step() throws
  double pct_start = 0.3;                   // the fraction of the steps in which the rate rises
  std::string anneal_strategy = "cos";      // or "linear"
  bool cycle_momentum = true;               // of SGD's momentum or Adam's first beta
  std::vector<double> base_momentum{0.85};  // at max_lr; one for all groups, or each
  std::vector<double> max_momentum{0.95};   // at the start and the end
  double div_factor = 25;                   // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;            // the last one is the first / final_div_factor
  bool three_phase = false;  // down to the first rate in as many steps as up, then to the last rate
};

class OneCycleLR final : public LRScheduler {
 public:
  // Sets the optimizer's initial_lr() and scheduler_option()s. As in PyTorch, a later OneCycleLR or
  // CyclicLR changes them for this scheduler, too. Throws kInvalidArgument for a bad option, and
  // for cycle_momentum with an optimizer that has neither momentum nor betas.
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 private:
  // A phase: from one rate and momentum to another, ending at a step.
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
