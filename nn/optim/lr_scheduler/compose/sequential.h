// SequentialLR: one scheduler after another.
//
//     optim::LinearLR warmup(opt, {.start_factor = 0.1, .total_iters = 5});
//     optim::CosineAnnealingLR cosine(opt, {.T_max = 85});
//     optim::SequentialLR scheduler(opt, {&warmup, &cosine}, {5});
#pragma once

#include <cstdint>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::optim {

class SequentialLR final : public LRScheduler {
 public:
  // The rates are those of schedulers[0] before milestones[0], of schedulers[1] from there on, and
  // so on. Each counts from 0 when its time comes: StepLR, MultiStepLR, ConstantLR, LinearLR,
  // ExponentialLR, PolynomialLR and CosineAnnealingLR begin at the optimizer's initial_lr(), SWALR
  // and MultiplicativeLR go on from the present rate, the others set the rate anyway. A
  // SequentialLR may be one of the schedulers; if it is the first one, its first rate is skipped,
  // as in PyTorch. The schedulers must outlive this one, and only this one steps them. Throws
  // kInvalidArgument if there is not one milestone fewer than schedulers, if milestones do not
  // rise, or if a scheduler is null or another optimizer's.
  SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers,
               std::vector<std::int64_t> milestones);

  // With the state of all schedulers, as "_schedulers.<i>.<name>".
  nn::StateDict state_dict() const override;
  void load_state_dict(const nn::StateDict& state) override;
  using LRScheduler::load_state_dict;  // of a value that nn::load_pth() returns

 private:
  void set_rates() override;
  TakeOver prepare_options(SavedScheduler& saved) override;
  void begin_rates() override;
  void undo_first_step() override;
  // The place in schedulers_ of the one whose turn it is.
  std::size_t current() const;
  void load_all(const nn::StateDict& state);

  std::vector<LRScheduler*> schedulers_;
  std::vector<std::int64_t> milestones_;
};

}  // namespace dl::optim
