// Schedules with a formula: each is a struct of options with a function next_rate(). Formulas and
// names of options are PyTorch's if nothing else is said. E below is last_epoch(), in steps of the
// scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"

namespace dl::optim {

// Your own schedule is such a struct, with kName, check() and next_rate(now). Optional members:
// first_rate(base_lr) gives the first rate in a SequentialLR, which otherwise is next_rate() of the
// current rate (PyTorch uses the closed form of schedulers that have one); keep_in(optimizer) sets
// the optimizer's scheduler_option()s; take_from(saved) reads PyTorch's state. Without take_from(),
// only this scheduler's own state_dict() can be loaded from a file of PyTorch's format.
template <typename Options>
class Schedule final : public LRScheduler {
 public:
  // Throws kInvalidArgument for a bad option, and then changes nothing.
  Schedule(Optimizer& optimizer, Options options)
      : LRScheduler(Options::kName, optimizer), options_(std::move(options)) {
    options_.check(optimizer.group_count());
    if constexpr (requires { options_.keep_in(optimizer); }) options_.keep_in(optimizer);
    take_first_step();
  }

  const Options& options() const noexcept { return options_; }

 private:
  void set_rates() override {
    set_each([this](const LRMoment& now) { return options_.next_rate(now); });
  }
  void begin_rates() override {
    if constexpr (requires { options_.first_rate(0.0); }) {
      set_each([this](const LRMoment& now) { return options_.first_rate(now.base_lr); });
    } else {
      set_rates();
    }
  }

  TakeOver prepare_options(SavedScheduler& saved) override {
    if constexpr (requires { options_.take_from(saved); }) {
      Options options = options_;
      options.take_from(saved);
      options.check(optimizer().group_count());
      return [this, options = std::move(options)]() mutable { std::swap(options_, options); };
    } else {
      return {};
    }
  }

  Options options_;
};

// lr *= gamma every step_size steps.
struct StepLROptions {
  std::int64_t step_size;  // at least 1
  double gamma = 0.1;

  static constexpr const char* kName = "StepLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using StepLR = Schedule<StepLROptions>;

// lr *= gamma when E is in milestones; repeated if a milestone is repeated.
struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;  // at least one
  double gamma = 0.1;

  static constexpr const char* kName = "MultiStepLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using MultiStepLR = Schedule<MultiStepLROptions>;

// lr *= factor at E = 0, and lr /= factor at E = total_iters. With total_iters = 0 the factor
// stays, as in PyTorch.
struct ConstantLROptions {
  double factor = 1.0 / 3;       // more than 0, at most 1
  std::int64_t total_iters = 5;  // at least 0

  static constexpr const char* kName = "ConstantLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using ConstantLR = Schedule<ConstantLROptions>;

// The learning rate for averaged weights: anneals lr to swa_lr in anneal_epochs steps, then keeps
// it (torch.optim.swa_utils.SWALR). In a SequentialLR it continues from the current rate. As in
// PyTorch, the newest SWALR sets swa_lr for all SWALRs of the optimizer.
struct SWALROptions {
  std::vector<double> swa_lr;  // one number, or one for each parameter group
  std::int64_t anneal_epochs = 10;
  bool linear = false;  // anneal_strategy: true: "linear"; false: "cos", half a period of a cosine

  static constexpr const char* kName = "SWALR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  void keep_in(Optimizer& optimizer) const;
  double next_rate(const LRMoment& now) const;
};
using SWALR = Schedule<SWALROptions>;

// lr changes linearly from base_lr start_factor to base_lr end_factor at E = total_iters.
struct LinearLROptions {
  double start_factor = 1.0 / 3;  // more than 0, at most 1
  double end_factor = 1;          // in [0, 1]
  std::int64_t total_iters = 5;   // at least 0; 0: keeps start_factor

  static constexpr const char* kName = "LinearLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using LinearLR = Schedule<LinearLROptions>;

// lr *= gamma at each step.
struct ExponentialLROptions {
  double gamma = std::numeric_limits<double>::quiet_NaN();  // required

  static constexpr const char* kName = "ExponentialLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using ExponentialLR = Schedule<ExponentialLROptions>;

// lr = base_lr (1 - E / total_iters)^power, 0 from E = total_iters on.
struct PolynomialLROptions {
  std::int64_t total_iters = 5;  // at least 0; 0: keeps base_lr
  double power = 1;

  static constexpr const char* kName = "PolynomialLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using PolynomialLR = Schedule<PolynomialLROptions>;

// lr = eta_min + (base_lr - eta_min) (1 + cos(pi E / T_max)) / 2 (Loshchilov and Hutter 2017);
// after T_max it rises again.
struct CosineAnnealingLROptions {
  std::int64_t T_max;  // at least 1
  double eta_min = 0;

  static constexpr const char* kName = "CosineAnnealingLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  double first_rate(double base_lr) const;
};
using CosineAnnealingLR = Schedule<CosineAnnealingLROptions>;

// The cosine from base_lr down to eta_min over T_0 steps, then again over T_0 T_mult, and so on
// (Loshchilov and Hutter 2017). Sets the rate.
struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0;         // at least 1
  std::int64_t T_mult = 1;  // at least 1
  double eta_min = 0;

  static constexpr const char* kName = "CosineAnnealingWarmRestarts";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
  // Steps since the last restart, and steps between it and the next.
  std::pair<std::int64_t, std::int64_t> place_of(std::int64_t epoch) const;
};
using CosineAnnealingWarmRestarts = Schedule<CosineAnnealingWarmRestartsOptions>;

// Warm-up, stable, decay (Hu et al. 2024), with names and numbers of get_wsd_schedule() of Hugging
// Face's transformers: lr = base_lr f(E), in which f rises from min_lr_ratio to 1 in
// num_warmup_steps, stays 1 for num_stable_steps, falls to min_lr_ratio in num_decay_steps, and
// stays there. Sets the rate. With x from 0 to 1 in a phase, its shape is
//   "linear"  x, and 1 - x for the decay
//   "cosine"  (1 - cos(pi x)) / 2, and (1 + cos(2 pi num_cycles x)) / 2
//   "1-sqrt"  1 - sqrt(1 - x), and 1 - sqrt(x) (Haegele et al. 2024)
struct WarmupStableDecayLROptions {
  std::int64_t num_warmup_steps;  // at least 0
  std::int64_t num_decay_steps;   // at least 0
  // Exactly one of these; of all steps, the stable ones are the rest.
  std::optional<std::int64_t> num_training_steps{};
  std::optional<std::int64_t> num_stable_steps{};
  std::string warmup_type = "linear";
  std::string decay_type = "cosine";
  double min_lr_ratio = 0;  // in [0, 1]
  double num_cycles = 0.5;  // of the cosine in the decay

  static constexpr const char* kName = "WarmupStableDecayLR";
  void check(std::size_t groups) const;
  // The state of PyTorch's LambdaLR that get_wsd_schedule() returns has no options: they stay.
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
};
using WarmupStableDecayLR = Schedule<WarmupStableDecayLROptions>;

// lr = base_lr lr_lambda(E). Sets the rate.
struct LambdaLROptions {
  std::vector<std::function<double(std::int64_t epoch)>> lr_lambda;  // one for all groups, or each

  static constexpr const char* kName = "LambdaLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
};
using LambdaLR = Schedule<LambdaLROptions>;

// lr *= lr_lambda(E) from the first step on. In a SequentialLR it continues from the current rate
// times lr_lambda(0).
struct MultiplicativeLROptions {
  std::vector<std::function<double(std::int64_t epoch)>> lr_lambda;  // one for all groups, or each

  static constexpr const char* kName = "MultiplicativeLR";
  void check(std::size_t groups) const;
  void take_from(SavedScheduler& saved);
  double next_rate(const LRMoment& now) const;
};
using MultiplicativeLR = Schedule<MultiplicativeLROptions>;

}  // namespace dl::optim
