#include "nn/optim/lr_scheduler/cycle/cycle.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "nn/optim/lr_scheduler/check_options.h"
#include "nn/optim/lr_scheduler/cycle/momentum_cycle.h"
#include "nn/optim/state/state_names.h"

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
  require_finite(kOneCycleName, "div_factor", o.div_factor);
  require_finite(kOneCycleName, "final_div_factor", o.final_div_factor);
  if (o.cycle_momentum) check_has_momentum(kOneCycleName, optimizer);
}

// Checks the options, and stores the end rates and momenta of the phases in the optimizer.
Optimizer& prepared(Optimizer& optimizer, const OneCycleLROptions& options) {
  check_one_cycle(options, optimizer);
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    const double max_lr = of_group(options.max_lr, g);
    const double initial_lr = max_lr / options.div_factor;
    optimizer.scheduler_option(SchedulerOption::kInitialLr, g) = initial_lr;
    optimizer.scheduler_option(SchedulerOption::kMaxLr, g) = max_lr;
    optimizer.scheduler_option(SchedulerOption::kMinLr, g) = initial_lr / options.final_div_factor;
    if (options.cycle_momentum) {
      keep_momenta(optimizer, g, of_group(options.base_momentum, g),
                   of_group(options.max_momentum, g));
    }
  }
  return optimizer;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(kOneCycleName, prepared(optimizer, options)), options_(std::move(options)) {
  const auto steps = static_cast<double>(options_.total_steps);
  const double rise = options_.pct_start * steps - 1;
  using enum SchedulerOption;
  phases_.push_back({rise, kInitialLr, kMaxLr, kMaxMomentum, kBaseMomentum});
  if (options_.three_phase) {
    phases_.push_back(
        {2 * options_.pct_start * steps - 2, kMaxLr, kInitialLr, kBaseMomentum, kMaxMomentum});
    phases_.push_back({steps - 1, kInitialLr, kMinLr, kMaxMomentum, kMaxMomentum});
  } else {
    phases_.push_back({steps - 1, kMaxLr, kMinLr, kBaseMomentum, kMaxMomentum});
  }
  take_first_step();
}

OneCycleLR::Phase OneCycleLR::phase_of(const nn::Value& saved, double begin) {
  const auto option = [&](std::string_view key) {
    const std::string& name = saved.at(key).as_string();
    for (std::size_t i = 0; i < kSchedulerOptionCount; ++i) {
      if (kSchedulerOptionNames[i] == name) return static_cast<SchedulerOption>(i);
    }
    throw_error(ErrorKind::kMismatch, "{}: load_state_dict: \"{}\" of a phase is \"{}\"",
                kOneCycleName, key, printable(name));
  };
  const std::optional<double> end = saved.at("end_step").number();
  DL_CHECK(end && *end >= begin, kMismatch,
           "{}: load_state_dict: the phases of \"_schedule_phases\" do not follow each other",
           kOneCycleName);
  return {.end = *end,
          .from_lr = option("start_lr"),
          .to_lr = option("end_lr"),
          .from_momentum = option("start_momentum"),
          .to_momentum = option("end_momentum")};
}

TakeOver OneCycleLR::prepare_options(SavedScheduler& saved) {
  OneCycleLROptions options = options_;
  saved.take("total_steps", options.total_steps);
  saved.take("_anneal_func_type", options.anneal_strategy);
  saved.take("cycle_momentum", options.cycle_momentum);
  saved.find("use_beta1");  // follows from the optimizer
  check_one_cycle(options, optimizer());
  std::vector<Phase> phases = phases_;
  if (const nn::Value* const list = saved.find("_schedule_phases")) {
    phases.clear();
    for (const nn::Value& each : list->as_list()) {
      phases.push_back(phase_of(each, phases.empty() ? -1 : phases.back().end));
    }
    if (phases.empty()) saved.refuse("_schedule_phases", *list, "at least one phase");
  }
  return [this, options = std::move(options), phases = std::move(phases)]() mutable {
    std::swap(options_, options);
    phases_.swap(phases);
  };
}

double OneCycleLR::between(SchedulerOption first, SchedulerOption last, std::size_t group,
                           double share) const {
  const auto number = [&](SchedulerOption option) {
    // Loading a state may have removed this option.
    if (option == SchedulerOption::kInitialLr) return optimizer().initial_lr(group);
    // The constructor has set the other options, unless loading a state replaced the momenta.
    const std::optional<double>& kept = optimizer().scheduler_option(option, group);
    DL_CHECK(kept, kMismatch,
             "{}: parameter group {} of the optimizer has no \"{}\", which the loaded state needs; "
             "load the optimizer's state, too",
             kOneCycleName, group, kSchedulerOptionNames[static_cast<std::size_t>(option)]);
    return *kept;
  };
  const double from = number(first);
  const double to = number(last);
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
  set_each(
      [&](const LRMoment& at) { return between(phase.from_lr, phase.to_lr, at.group, share); });
  if (!options_.cycle_momentum) return;
  for (std::size_t g = 0; g < optimizer().group_count(); ++g) {
    *optimizer().momentum(g) = between(phase.from_momentum, phase.to_momentum, g, share);
  }
}

}  // namespace dl::optim
