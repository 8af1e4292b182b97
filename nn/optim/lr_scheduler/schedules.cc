#include "nn/optim/lr_scheduler/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "nn/optim/lr_scheduler/check_options.h"

namespace dl::optim {
namespace {

using Lambdas = std::vector<std::function<double(std::int64_t)>>;

// For a factor by which a rate is also divided later.
void require_factor(const char* scheduler, const char* option, double value) {
  DL_CHECK(value > 0 && value <= 1, kInvalidArgument,
           "{}: {} is {}, wanted more than 0 and at most 1", scheduler, option, value);
}

void check_lambdas(const char* scheduler, const Lambdas& lambdas, std::size_t groups) {
  DL_CHECK(lambdas.size() == 1 || lambdas.size() == groups, kInvalidArgument,
           "{}: lr_lambda has {} functions, wanted 1 or one for each of {} parameter groups",
           scheduler, lambdas.size(), groups);
  DL_CHECK(std::ranges::all_of(lambdas, [](const auto& f) { return f != nullptr; }),
           kInvalidArgument, "{}: lr_lambda holds an empty function", scheduler);
}

double factor_of(const Lambdas& lambdas, const LRMoment& now) {
  return lambdas[lambdas.size() == 1 ? 0 : now.group](now.epoch);
}

// Functions are not saved, but PyTorch saves the attributes of callable objects: refuses such a
// state. Objects without attributes, as those of functools.partial(), lose nothing.
void refuse_states(SavedScheduler& saved) {
  const nn::Value* const lambdas = saved.find("lr_lambdas");
  if (lambdas == nullptr) return;
  for (const nn::Value& each : lambdas->as_list()) {
    const bool is_empty = each.is_none() || (each.is_dict() && each.as_dict().empty());
    if (!is_empty) saved.refuse("lr_lambdas", each, "None for each function");
  }
}

// Half a cosine period from `from` (share = 0) to `to` (share = 1).
double cosine_between(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

}  // namespace

void StepLROptions::check(std::size_t) const {
  require_at_least_1(kName, "step_size", step_size);
  require_finite(kName, "gamma", gamma);
}

void StepLROptions::take_from(SavedScheduler& saved) {
  saved.take("step_size", step_size);
  saved.take("gamma", gamma);
}

double StepLROptions::next_rate(const LRMoment& now) const {
  return now.epoch == 0 || now.epoch % step_size != 0 ? now.lr : now.lr * gamma;
}

double StepLROptions::first_rate(double base_lr) const {
  return base_lr;
}

void MultiStepLROptions::check(std::size_t) const {
  DL_CHECK(!milestones.empty(), kInvalidArgument, "{}: milestones is empty, wanted at least one",
           kName);
  require_finite(kName, "gamma", gamma);
}

void MultiStepLROptions::take_from(SavedScheduler& saved) {
  saved.take("milestones", milestones);
  saved.take("gamma", gamma);
}

double MultiStepLROptions::next_rate(const LRMoment& now) const {
  const auto times = static_cast<double>(std::ranges::count(milestones, now.epoch));
  return times == 0 ? now.lr : now.lr * std::pow(gamma, times);
}

double MultiStepLROptions::first_rate(double base_lr) const {
  const auto begun = std::ranges::count_if(milestones, [](std::int64_t at) { return at <= 0; });
  return base_lr * std::pow(gamma, static_cast<double>(begun));
}

void ConstantLROptions::check(std::size_t) const {
  require_factor(kName, "factor", factor);
  require_count(kName, "total_iters", total_iters);
}

void ConstantLROptions::take_from(SavedScheduler& saved) {
  saved.take("factor", factor);
  saved.take("total_iters", total_iters);
}

double ConstantLROptions::next_rate(const LRMoment& now) const {
  if (now.epoch == 0) return now.lr * factor;
  return now.epoch == total_iters ? now.lr * (1 / factor) : now.lr;
}

double ConstantLROptions::first_rate(double base_lr) const {
  return total_iters == 0 ? base_lr : base_lr * factor;
}

void SWALROptions::check(std::size_t groups) const {
  require_for_groups(kName, "swa_lr", swa_lr, groups);
  require_count(kName, "anneal_epochs", anneal_epochs);
}

void SWALROptions::keep_in(Optimizer& optimizer) const {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    optimizer.scheduler_option(SchedulerOption::kSwaLr, g) = of_group(swa_lr, g);
  }
}

void SWALROptions::take_from(SavedScheduler& saved) {
  saved.take("anneal_epochs", anneal_epochs);
  std::string strategy = linear ? "linear" : "cos";
  saved.take("_anneal_strategy", strategy);
  linear = strategy == "linear";
}

double SWALROptions::next_rate(const LRMoment& now) const {
  const double wanted = now.optimizer.scheduler_option(SchedulerOption::kSwaLr, now.group)
                            .value_or(of_group(swa_lr, now.group));
  const std::int64_t step = anneal_epochs == 0 ? std::max<std::int64_t>(1, now.steps) : now.steps;
  const auto share = [&](std::int64_t at) {
    const auto epochs = static_cast<double>(std::max<std::int64_t>(1, anneal_epochs));
    const double t = std::clamp(static_cast<double>(at) / epochs, 0.0, 1.0);
    return linear ? t : (1 - std::cos(std::numbers::pi * t)) / 2;
  };
  const double before = share(step - 1);
  const double start = before == 1 ? wanted : (now.lr - before * wanted) / (1 - before);
  const double alpha = share(step);
  return wanted * alpha + start * (1 - alpha);
}

void LinearLROptions::check(std::size_t) const {
  require_factor(kName, "start_factor", start_factor);
  DL_CHECK(end_factor >= 0 && end_factor <= 1, kInvalidArgument,
           "{}: end_factor is {}, wanted 0 to 1", kName, end_factor);
  require_count(kName, "total_iters", total_iters);
}

void LinearLROptions::take_from(SavedScheduler& saved) {
  saved.take("start_factor", start_factor);
  saved.take("end_factor", end_factor);
  saved.take("total_iters", total_iters);
}

double LinearLROptions::next_rate(const LRMoment& now) const {
  if (now.epoch == 0) return now.lr * start_factor;
  if (now.initial || now.epoch > total_iters) return now.lr;
  const double slope = end_factor - start_factor;
  const double before =
      static_cast<double>(total_iters) * start_factor + static_cast<double>(now.epoch - 1) * slope;
  return now.lr * (1 + slope / before);
}

double LinearLROptions::first_rate(double base_lr) const {
  return base_lr * start_factor;
}

void ExponentialLROptions::check(std::size_t) const {
  DL_CHECK(!std::isnan(gamma), kInvalidArgument,
           "{}: gamma is missing or NaN, wanted a finite number", kName);
  require_finite(kName, "gamma", gamma);
}

void ExponentialLROptions::take_from(SavedScheduler& saved) {
  saved.take("gamma", gamma);
}

double ExponentialLROptions::next_rate(const LRMoment& now) const {
  return now.initial ? now.lr : now.lr * gamma;
}

double ExponentialLROptions::first_rate(double base_lr) const {
  return base_lr;
}

void PolynomialLROptions::check(std::size_t) const {
  require_count(kName, "total_iters", total_iters);
  require_finite(kName, "power", power);
}

void PolynomialLROptions::take_from(SavedScheduler& saved) {
  saved.take("total_iters", total_iters);
  saved.take("power", power);
}

double PolynomialLROptions::next_rate(const LRMoment& now) const {
  if (now.initial || total_iters == 0 || now.epoch > total_iters) return now.lr;
  const auto share_left = [this](std::int64_t epoch) {
    return 1 - static_cast<double>(epoch) / static_cast<double>(total_iters);
  };
  return now.lr * std::pow(share_left(now.epoch) / share_left(now.epoch - 1), power);
}

double PolynomialLROptions::first_rate(double base_lr) const {
  return base_lr;
}

void CosineAnnealingLROptions::check(std::size_t) const {
  require_at_least_1(kName, "T_max", T_max);
  require_finite(kName, "eta_min", eta_min);
}

void CosineAnnealingLROptions::take_from(SavedScheduler& saved) {
  saved.take("T_max", T_max);
  saved.take("eta_min", eta_min);
}

double CosineAnnealingLROptions::next_rate(const LRMoment& now) const {
  if (now.initial) return now.lr;
  const double step = std::numbers::pi / static_cast<double>(T_max);
  // At the minimum the ratio below would divide by 0.
  if ((now.epoch - 1 - T_max) % (2 * T_max) == 0) {
    return now.lr + (now.base_lr - eta_min) * (1 - std::cos(step)) / 2;
  }
  const auto height = [step](std::int64_t epoch) {
    return 1 + std::cos(step * static_cast<double>(epoch));
  };
  return height(now.epoch) / height(now.epoch - 1) * (now.lr - eta_min) + eta_min;
}

double CosineAnnealingLROptions::first_rate(double base_lr) const {
  return base_lr;
}

void CosineAnnealingWarmRestartsOptions::check(std::size_t) const {
  require_at_least_1(kName, "T_0", T_0);
  require_at_least_1(kName, "T_mult", T_mult);
  require_finite(kName, "eta_min", eta_min);
}

std::pair<std::int64_t, std::int64_t> CosineAnnealingWarmRestartsOptions::place_of(
    std::int64_t epoch) const {
  check(1);
  std::int64_t length = T_0;
  std::int64_t at = std::max<std::int64_t>(epoch, 0);
  if (T_mult == 1) return {at % length, length};
  for (; at >= length; length *= T_mult) at -= length;
  return {at, length};
}

void CosineAnnealingWarmRestartsOptions::take_from(SavedScheduler& saved) {
  saved.take("T_0", T_0);
  saved.take("T_mult", T_mult);
  saved.take("eta_min", eta_min);
  // PyTorch's position in its cosine, which here follows from last_epoch. Both differ if a program
  // has called step(epoch) with a fraction.
  const std::int64_t epoch = saved.integer("last_epoch");
  const auto [at, length] = place_of(epoch);
  double theirs = static_cast<double>(at);
  saved.take("T_cur", theirs);
  DL_CHECK(theirs == static_cast<double>(at), kMismatch,
           "{}: load_state_dict: \"T_cur\" is {} at last_epoch {}, wanted {}; step(epoch) with "
           "epochs of one's own is missing here",
           kName, theirs, epoch, at);
  std::int64_t their_length = length;
  saved.take("T_i", their_length);
}

double CosineAnnealingWarmRestartsOptions::next_rate(const LRMoment& now) const {
  const auto [at, length] = place_of(now.epoch);
  return cosine_between(now.base_lr, eta_min,
                        static_cast<double>(at) / static_cast<double>(length));
}

void WarmupStableDecayLROptions::check(std::size_t) const {
  require_count(kName, "num_warmup_steps", num_warmup_steps);
  require_count(kName, "num_decay_steps", num_decay_steps);
  DL_CHECK(num_training_steps.has_value() != num_stable_steps.has_value(), kInvalidArgument,
           "{}: {} of num_training_steps and num_stable_steps is given, wanted one", kName,
           num_stable_steps ? "each" : "none");
  if (num_stable_steps) require_count(kName, "num_stable_steps", *num_stable_steps);
  if (num_training_steps) {
    // Subtracted one after the other, as their sum may be out of range.
    DL_CHECK(*num_training_steps >= num_warmup_steps &&
                 *num_training_steps - num_warmup_steps >= num_decay_steps,
             kInvalidArgument,
             "{}: num_training_steps is {}, wanted at least num_warmup_steps ({}) and "
             "num_decay_steps ({}) together",
             kName, *num_training_steps, num_warmup_steps, num_decay_steps);
  }
  for (const auto& [option, type] :
       {std::pair("warmup_type", &warmup_type), {"decay_type", &decay_type}}) {
    DL_CHECK(*type == "linear" || *type == "cosine" || *type == "1-sqrt", kInvalidArgument,
             "{}: {} is \"{}\", wanted \"linear\", \"cosine\" or \"1-sqrt\"", kName, option, *type);
  }
  DL_CHECK(min_lr_ratio >= 0 && min_lr_ratio <= 1, kInvalidArgument,
           "{}: min_lr_ratio is {}, wanted 0 to 1", kName, min_lr_ratio);
  require_finite(kName, "num_cycles", num_cycles);
}

void WarmupStableDecayLROptions::take_from(SavedScheduler& saved) {
  refuse_states(saved);
}

double WarmupStableDecayLROptions::next_rate(const LRMoment& now) const {
  const std::int64_t stable = num_stable_steps.value_or(num_training_steps.value_or(0) -
                                                        num_warmup_steps - num_decay_steps);
  const auto rate = [&](double height) {
    return now.base_lr * (height * (1 - min_lr_ratio) + min_lr_ratio);
  };
  if (now.epoch < num_warmup_steps) {
    const double x = static_cast<double>(now.epoch) / static_cast<double>(num_warmup_steps);
    if (warmup_type == "cosine") return rate((1 - std::cos(std::numbers::pi * x)) / 2);
    return rate(warmup_type == "linear" ? x : 1 - std::sqrt(1 - x));
  }
  const std::int64_t decayed = now.epoch - num_warmup_steps - stable;
  if (decayed < 0) return now.base_lr;
  if (decayed >= num_decay_steps) return rate(0);
  const double x = static_cast<double>(decayed) / static_cast<double>(num_decay_steps);
  if (decay_type == "cosine") {
    return rate((1 + std::cos(std::numbers::pi * num_cycles * 2 * x)) / 2);
  }
  return rate(decay_type == "linear" ? 1 - x : 1 - std::sqrt(x));
}

void LambdaLROptions::check(std::size_t groups) const {
  check_lambdas(kName, lr_lambda, groups);
}

void LambdaLROptions::take_from(SavedScheduler& saved) {
  refuse_states(saved);
}

double LambdaLROptions::next_rate(const LRMoment& now) const {
  return now.base_lr * factor_of(lr_lambda, now);
}

void MultiplicativeLROptions::check(std::size_t groups) const {
  check_lambdas(kName, lr_lambda, groups);
}

void MultiplicativeLROptions::take_from(SavedScheduler& saved) {
  refuse_states(saved);
}

double MultiplicativeLROptions::next_rate(const LRMoment& now) const {
  return now.initial ? now.lr : now.lr * factor_of(lr_lambda, now);
}

}  // namespace dl::optim
