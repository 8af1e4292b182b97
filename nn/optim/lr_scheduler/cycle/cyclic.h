// CyclicLR: up from base_lr to max_lr and down again, over and over, with the momentum the other
// way (Smith 2017), torch.optim.lr_scheduler.CyclicLR's formulas.
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
  std::optional<std::int64_t> step_size_down{};  // and back, at least 0; default: step_size_up
  // The height of a cycle: "triangular" keeps it, "triangular2" halves it from cycle to cycle,
  // "exp_range" multiplies it by gamma at each step.
  std::string mode = "triangular";
  double gamma = 1;
  // In place of the mode: the height's factor. It gets the number of the cycle, from 1 on, or of
  // the step, from 0 on.
  std::function<double(double)> scale_fn{};
  std::string scale_mode = "cycle";        // or "iterations"
  bool cycle_momentum = true;              // of SGD's momentum or Adam's first beta
  std::vector<double> base_momentum{0.8};  // at max_lr; one for all groups, or each
  std::vector<double> max_momentum{0.9};   // at base_lr
};

class CyclicLR final : public LRScheduler {
 public:
  // Throws kInvalidArgument for a bad option, and for cycle_momentum with an optimizer that has
  // neither momentum nor betas. As in PyTorch the rate begins at the optimizer's initial_lr() if an
  // earlier scheduler set that, and goes on from base_lr with the first step.
  CyclicLR(Optimizer& optimizer, CyclicLROptions options);

 private:
  void set_rates() override;
  TakeOver prepare_options(SavedScheduler& saved) override;
  // Returns the rate's place between base_lr, which is 0, and max_lr, which is 1.
  double height() const;

  CyclicLROptions options_;
};

}  // namespace dl::optim
