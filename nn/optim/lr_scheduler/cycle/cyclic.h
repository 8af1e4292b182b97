// CyclicLR: cycles the rate between base_lr and max_lr, and the momentum in the opposite direction
// (Smith 2017), with the formulas of torch.optim.lr_scheduler.CyclicLR.
//
//     optim::CyclicLR scheduler(opt, {.base_lr = {0.01}, .max_lr = {0.1}, .step_size_up = 500});
//     scheduler.step();  // after each batch, after opt.step()
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::optim {

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
