#include "nn/optim/lr_scheduler/cycle/cycle.h"

#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "nn/optim/lr_scheduler/check_options.h"
#include "nn/optim/lr_scheduler/cycle/momentum_cycle.h"

namespace dl::optim {
namespace {

constexpr const char* kCyclicName = "CyclicLR";

void check_cyclic(const CyclicLROptions& o, Optimizer& optimizer) {
  const std::size_t groups = optimizer.group_count();
  require_for_groups(kCyclicName, "base_lr", o.base_lr, groups);
  require_for_groups(kCyclicName, "max_lr", o.max_lr, groups);
  require_for_groups(kCyclicName, "base_momentum", o.base_momentum, groups);
  require_for_groups(kCyclicName, "max_momentum", o.max_momentum, groups);
  require_at_least_1(kCyclicName, "step_size_up", o.step_size_up);
  require_count(kCyclicName, "step_size_down", o.step_size_down.value_or(0));
  DL_CHECK(o.scale_fn != nullptr || o.mode == "triangular" || o.mode == "triangular2" ||
               o.mode == "exp_range",
           kInvalidArgument,
           "{}: mode is \"{}\", wanted \"triangular\", \"triangular2\" or \"exp_range\"",
           kCyclicName, o.mode);
  DL_CHECK(o.scale_mode == "cycle" || o.scale_mode == "iterations", kInvalidArgument,
           "{}: scale_mode is \"{}\", wanted \"cycle\" or \"iterations\"", kCyclicName,
           o.scale_mode);
  require_finite(kCyclicName, "gamma", o.gamma);
  if (o.cycle_momentum) check_has_momentum(kCyclicName, optimizer);
}

// Checks the options, and sets the optimizer's rates to the begin of the cycle. Like PyTorch it
// also stores the momenta in the optimizer, but only a OneCycleLR reads them.
Optimizer& begun(Optimizer& optimizer, const CyclicLROptions& options) {
  check_cyclic(options, optimizer);
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    optimizer.lr(g) = of_group(options.base_lr, g);
    if (options.cycle_momentum) {
      keep_momenta(optimizer, g, of_group(options.base_momentum, g),
                   of_group(options.max_momentum, g));
    }
  }
  return optimizer;
}

}  // namespace

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicLROptions options)
    : LRScheduler(kCyclicName, begun(optimizer, options)), options_(std::move(options)) {
  take_first_step();
  std::vector<double> rates;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    rates.push_back(of_group(options_.base_lr, g));
  }
  set_base_lrs(std::move(rates));
}

TakeOver CyclicLR::prepare_options(SavedScheduler& saved) {
  CyclicLROptions options = options_;
  saved.take("max_lrs", options.max_lr);
  saved.take("base_lrs", options.base_lr);
  saved.take("mode", options.mode);
  saved.take("gamma", options.gamma);
  saved.take("scale_mode", options.scale_mode);
  saved.take("cycle_momentum", options.cycle_momentum);
  saved.take("base_momentums", options.base_momentum);
  saved.take("max_momentums", options.max_momentum);
  saved.find("use_beta1");  // follows from the optimizer
  if (saved.find("total_size") != nullptr) {
    const double both = saved.number("total_size");
    const double up = std::round(both * saved.number("step_ratio"));
    DL_CHECK(up >= 1 && both >= up && both < 1e15 && both == std::floor(both), kMismatch,
             "{}: load_state_dict: \"total_size\" and \"step_ratio\" are {} and {}, wanted whole "
             "numbers of steps up and down",
             kCyclicName, both, saved.number("step_ratio"));
    options.step_size_up = static_cast<std::int64_t>(up);
    options.step_size_down = static_cast<std::int64_t>(both - up);
  }
  if (const nn::Value* const custom = saved.find("_scale_fn_custom");
      custom != nullptr && !custom->is_none()) {
    saved.refuse("_scale_fn_custom", *custom, "None");
  }
  check_cyclic(options, optimizer());
  return [this, options = std::move(options)]() mutable { std::swap(options_, options); };
}

double CyclicLR::height() const {
  const auto up = static_cast<double>(options_.step_size_up);
  const auto down = static_cast<double>(options_.step_size_down.value_or(options_.step_size_up));
  const auto now = static_cast<double>(last_epoch());
  const double cycle = std::floor(1 + now / (up + down));
  const double share = 1 + now / (up + down) - cycle;
  const double turn = up / (up + down);
  const double height = share <= turn ? share / turn : (share - 1) / (turn - 1);
  if (options_.scale_fn) {
    return height * options_.scale_fn(options_.scale_mode == "cycle" ? cycle : now);
  }
  if (options_.mode == "triangular2") return height / std::pow(2, cycle - 1);
  return options_.mode == "exp_range" ? height * std::pow(options_.gamma, now) : height;
}

void CyclicLR::set_rates() {
  const double height = this->height();
  set_each([&](const LRMoment& at) {
    return at.base_lr + (of_group(options_.max_lr, at.group) - at.base_lr) * height;
  });
  if (!options_.cycle_momentum) return;
  for (std::size_t g = 0; g < optimizer().group_count(); ++g) {
    const double most = of_group(options_.max_momentum, g);
    *optimizer().momentum(g) = most - (most - of_group(options_.base_momentum, g)) * height;
  }
}

}  // namespace dl::optim
