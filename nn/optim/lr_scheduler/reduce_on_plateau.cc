#include "nn/optim/lr_scheduler/reduce_on_plateau.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/option.h"
#include "core/tensor/factories.h"
#include "nn/optim/lr_scheduler/check_options.h"
#include "nn/optim/lr_scheduler/saved_scheduler.h"
#include "nn/optim/lr_scheduler/scheduler_state.h"

namespace dl::optim {
namespace {

constexpr const char* kPlateauName = "ReduceLROnPlateau";

void check_plateau(const ReduceLROnPlateauOptions& o, const Optimizer& optimizer) {
  DL_CHECK(o.mode == "min" || o.mode == "max", kInvalidArgument,
           "{}: mode is \"{}\", wanted \"min\" or \"max\"", kPlateauName, o.mode);
  DL_CHECK(o.threshold_mode == "rel" || o.threshold_mode == "abs", kInvalidArgument,
           "{}: threshold_mode is \"{}\", wanted \"rel\" or \"abs\"", kPlateauName,
           o.threshold_mode);
  DL_CHECK(o.factor < 1, kInvalidArgument, "{}: factor is {}, wanted less than 1", kPlateauName,
           o.factor);
  require_finite(kPlateauName, "factor", o.factor);
  require_finite(kPlateauName, "threshold", o.threshold);
  require_finite(kPlateauName, "eps", o.eps);
  require_for_groups(kPlateauName, "min_lr", o.min_lr, optimizer.group_count());
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : optimizer_(&optimizer), options_(std::move(options)) {
  check_plateau(options_, optimizer);
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.mode == "min" ? infinity : -infinity;
  keep_rates();
}

void ReduceLROnPlateau::check_groups() const {
  require_for_groups(kPlateauName, "min_lr", options_.min_lr, optimizer_->group_count());
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = options_.mode == "min" ? -1 : 1;
  const double margin = sign * options_.threshold;
  const double bar = options_.threshold_mode == "rel" ? best_ * (1 + margin) : best_ + margin;
  return options_.mode == "min" ? metric < bar : metric > bar;
}

void ReduceLROnPlateau::step(double metric) {
  dl::detail::not_repeatable("a scheduler's step() is called", RepeatedBy::kNothing);
  check_groups();
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > options_.patience) {
    lower_rates();
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
  keep_rates();
}

void ReduceLROnPlateau::lower_rates() {
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) {
    const double least = of_group(options_.min_lr, g);
    double& lr = optimizer_->lr(g);
    const double lower = std::max(lr * options_.factor, least);
    if (lr - lower > options_.eps) lr = lower;
  }
}

void ReduceLROnPlateau::keep_rates() {
  last_lrs_.clear();
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) {
    last_lrs_.push_back(optimizer_->lr(g));
  }
}

nn::StateDict ReduceLROnPlateau::state_dict() const {
  return {{"best", tensor(best_, {.dtype = DType::kF64})},
          {"num_bad_epochs", tensor(num_bad_epochs_)},
          {"cooldown_counter", tensor(cooldown_counter_)},
          {"last_epoch", tensor(last_epoch_)},
          {"_last_lr", tensor(last_lrs_, {.dtype = DType::kF64})}};
}

void ReduceLROnPlateau::load_state_dict(const nn::StateDict& state) {
  const SchedulerState given(kPlateauName, state);
  const double best = given.number("best");
  const std::int64_t num_bad_epochs = given.integer("num_bad_epochs");
  const std::int64_t cooldown_counter = given.integer("cooldown_counter");
  const std::int64_t last_epoch = given.integer("last_epoch");
  if (nn::find(state, "_last_lr") != nullptr) {
    last_lrs_ = given.numbers("_last_lr", optimizer_->group_count());
  }
  last_epoch_ = last_epoch;
  best_ = best;
  num_bad_epochs_ = num_bad_epochs;
  cooldown_counter_ = cooldown_counter;
}

void ReduceLROnPlateau::load_value(const nn::Value& state) {
  if (holds_tensors_only(state)) return load_state_dict(state.as_state_dict());
  SavedScheduler saved(kPlateauName, state);
  ReduceLROnPlateauOptions options = options_;
  saved.take("factor", options.factor);
  saved.take("patience", options.patience);
  saved.take("cooldown", options.cooldown);
  saved.take("eps", options.eps);
  saved.take("mode", options.mode);
  saved.take("threshold", options.threshold);
  saved.take("threshold_mode", options.threshold_mode);
  saved.take("min_lrs", options.min_lr);
  for (const char* const other : {"mode_worse", "default_min_lr", "base_lrs"}) saved.find(other);
  check_plateau(options, *optimizer_);
  const double best = saved.number("best");
  const std::int64_t num_bad_epochs = saved.integer("num_bad_epochs");
  const std::int64_t cooldown_counter = saved.integer("cooldown_counter");
  const std::int64_t last_epoch = saved.integer("last_epoch");
  std::vector<double> last_lrs = last_lrs_;
  if (saved.find("_last_lr") != nullptr) {
    last_lrs = saved.numbers("_last_lr", optimizer_->group_count());
  }
  saved.finish();
  options_ = std::move(options);
  best_ = best;
  num_bad_epochs_ = num_bad_epochs;
  cooldown_counter_ = cooldown_counter;
  last_epoch_ = last_epoch;
  last_lrs_ = std::move(last_lrs);
}

}  // namespace dl::optim
