// Schedulers that raise and lower the rate, and the momentum in the opposite direction, with the
// formulas of torch.optim.lr_scheduler: OneCycleLR and CyclicLR. Both set the rate.
//
//     optim::OneCycleLR once(opt, {.max_lr = {0.1}, .total_steps = epochs * batches});
//     once.step();  // after each batch, after opt.step()
//     optim::CyclicLR cyclic(opt, {.base_lr = {0.01}, .max_lr = {0.1}, .step_size_up = 500});
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::optim {

// OneCycleLR raises the rate to max_lr and lowers it to almost 0 in one run (Smith and Topin 2018).
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

// CyclicLR cycles the rate between base_lr and max_lr (Smith 2017).
struct CyclicLROptions {
  std::vector<double> base_lr;                   // one for all groups, or each
  std::vector<double> max_lr;                    // one for all groups, or each
  std::int64_t step_size_up = 2000;              // steps from base_lr to max_lr, at least 1
  std::optional<std::int64_t> step_size_down{};  // back to base_lr; default: step_size_up
  // The amplitude of a cycle: "triangular" keeps it, "triangular2" halves it in each cycle,
  // "exp_range" multiplies it by gamma in each step.
  std::string mode = "triangular";
  double gamma = 1;
  // Replaces the mode: returns the amplitude's factor, given the number of the cycle (from 1) or of
  // the step (from 0).
  std::function<double(double)> scale_fn{};
  std::string scale_mode = "cycle";        // or "iterations"
  bool cycle_momentum = true;              // of SGD's momentum or Adam's first beta
  std::vector<double> base_momentum{0.8};  // at max_lr; one for all groups, or each
  std::vector<double> max_momentum{0.9};   // at base_lr
};

class CyclicLR final : public LRScheduler {
 public:
  // Throws kInvalidArgument for a bad option, and for cycle_momentum with an optimizer that has
  // neither momentum nor betas. As in PyTorch, the rate begins at the optimizer's initial_lr() if
  // an earlier scheduler set that, and continues from base_lr with the first step.
  CyclicLR(Optimizer& optimizer, CyclicLROptions options);

 private:
  void set_rates() override;
  TakeOver prepare_options(SavedScheduler& saved) override;
  // Returns the position of the rate between base_lr (0) and max_lr (1).
  double height() const;

  CyclicLROptions options_;
};

}  // namespace dl::optim
