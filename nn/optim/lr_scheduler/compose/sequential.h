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
  // schedulers[0] sets the rates before milestones[0], schedulers[1] from there on, and so on. Each
  // counts from 0 when it becomes active: StepLR, MultiStepLR, ConstantLR, LinearLR, ExponentialLR,
  // PolynomialLR and CosineAnnealingLR start at the optimizer's initial_lr(), SWALR and
  // MultiplicativeLR continue from the current rate, and the others set the rate themselves. A
  // SequentialLR may be one of the schedulers; if it is the first one, its first rate is skipped,
  // as in PyTorch. The schedulers must outlive this one, and only this one steps them. Throws
  // kInvalidArgument unless there is one milestone fewer than schedulers and milestones ascend, or
  // if a scheduler is null or belongs to another optimizer.
  SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers,
               std::vector<std::int64_t> milestones);

  // With the state of all schedulers, as "_schedulers.<i>.<name>".
  nn::StateDict state_dict() const override;
  void load_state_dict(const nn::StateDict& state) override;
  using LRScheduler::load_state_dict;  // for a value from nn::load_pth()

 private:
  void set_rates() override;
  TakeOver prepare_options(SavedScheduler& saved) override;
  void begin_rates() override;
  void undo_first_step() override;
  // The index of the active scheduler.
  std::size_t current() const;
  void load_all(const nn::StateDict& state);

  std::vector<LRScheduler*> schedulers_;
  std::vector<std::int64_t> milestones_;
};

}  // namespace dl::optim
