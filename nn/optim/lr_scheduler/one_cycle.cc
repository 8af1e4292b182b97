#include "nn/optim/lr_scheduler/one_cycle.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "core/base/error.h"
#include "nn/optim/lr_scheduler/check_options.h"
#include "nn/optim/lr_scheduler/momentum_cycle.h"

namespace dl::optim {
namespace {

constexpr const char* kOneCycleName = "OneCycleLR";

void check_one_cycle(const OneCycleLROptions& o, Optimizer& optimizer) {
  const std::size_t groups = optimizer.group_count();
  require_for_groups(kOneCycleName, "max_lr", o.max_lr, groups);
  require_for_groups(kOneCycleName, "base_momentum", o.base_momentum, groups);
  require_for_groups(kOneCycleName, "max_momentum", o.max_momentum, groups);
  require_at_least_1(kOneCycleName, "total_steps", o.total_steps);
  DL_CHECK(o.pct_start >= 0 && o.pct_start <= 1, kInvalidArgument,
           "{}: pct_start is {}, wanted 0 to 1", kOneCycleName, o.pct_start);
  DL_CHECK(o.anneal_strategy == "cos" || o.anneal_strategy == "linear", kInvalidArgument,
           "{}: anneal_strategy is \"{}\", wanted \"cos\" or \"linear\"", kOneCycleName,
           o.anneal_strategy);
  DL_CHECK(o.div_factor > 0 && o.final_div_factor > 0, kInvalidArgument,
           "{}: div_factor is {} and final_div_factor {}, wanted more than 0", kOneCycleName,
           o.div_factor, o.final_div_factor);
  if (o.cycle_momentum) check_has_momentum(kOneCycleName, optimizer);
}

// Checks the options, and gives the optimizer the rates and momenta that the phases lead to.
Optimizer& prepared(Optimizer& optimizer, const OneCycleLROptions& options) {
  check_one_cycle(options, optimizer);
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    Optimizer::OneCycleRange& range = optimizer.one_cycle_range(g);
    range.max_lr = of_group(options.max_lr, g);
    optimizer.initial_lr(g) = range.max_lr / options.div_factor;
    range.min_lr = optimizer.initial_lr(g) / options.final_div_factor;
    if (!options.cycle_momentum) continue;
    range.base_momentum = of_group(options.base_momentum, g);
    range.max_momentum = of_group(options.max_momentum, g);
  }
  return optimizer;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(kOneCycleName, prepared(optimizer, options)), options_(std::move(options)) {
  const auto steps = static_cast<double>(options_.total_steps);
  const double rise = options_.pct_start * steps - 1;
  phases_.push_back({rise, Rate::kInitial, Rate::kMax, 1, 0});
  if (options_.three_phase) {
    phases_.push_back({2 * options_.pct_start * steps - 2, Rate::kMax, Rate::kInitial, 0, 1});
    phases_.push_back({steps - 1, Rate::kInitial, Rate::kMin, 1, 1});
  } else {
    phases_.push_back({steps - 1, Rate::kMax, Rate::kMin, 0, 1});
  }
  take_first_step();
}

double OneCycleLR::between(double from, double to, double share) const {
  if (options_.anneal_strategy == "linear") return from + (to - from) * share;
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * share) + 1);
}

void OneCycleLR::set_rates() {
  DL_CHECK(last_epoch() <= options_.total_steps, kInvalidArgument,
           "{}: step {} of a schedule of {} steps (total_steps)", kOneCycleName, last_epoch(),
           options_.total_steps);
  const auto now = static_cast<double>(last_epoch());
  std::size_t i = 0;
  while (i + 1 < phases_.size() && now > phases_[i].end) ++i;
  const Phase& phase = phases_[i];
  const double start = i == 0 ? 0 : phases_[i - 1].end;
  const double share = phase.end > start ? (now - start) / (phase.end - start) : 1;
  const auto rate_of = [&](Rate rate, std::size_t group) {
    if (rate == Rate::kInitial) return optimizer().initial_lr(group);
    const Optimizer::OneCycleRange& range = optimizer().one_cycle_range(group);
    return rate == Rate::kMax ? range.max_lr : range.min_lr;
  };
  set_each([&](const LRMoment& at) {
    return between(rate_of(phase.from_lr, at.group), rate_of(phase.to_lr, at.group), share);
  });
  if (!options_.cycle_momentum) return;
  for (std::size_t g = 0; g < optimizer().group_count(); ++g) {
    const Optimizer::OneCycleRange& range = optimizer().one_cycle_range(g);
    *momentum_of(optimizer(), g) =
        range.base_momentum + (range.max_momentum - range.base_momentum) *
                                  between(phase.from_momentum, phase.to_momentum, share);
  }
}

}  // namespace dl::optim
