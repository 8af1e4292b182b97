#include "nn/amp/grad_scaler.h"

#include <fmt/core.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/option.h"
#include "core/device/cuda/graph.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"

namespace dl::amp {

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options), first_scale_(options.init_scale) {
  DL_CHECK(options.growth_factor > 1, kInvalidArgument,
           "GradScaler: growth_factor is {}, wanted more than 1", options.growth_factor);
  DL_CHECK(options.backoff_factor < 1 && options.backoff_factor > 0, kInvalidArgument,
           "GradScaler: backoff_factor is {}, wanted more than 0 and less than 1",
           options.backoff_factor);
  DL_CHECK(options.growth_interval >= 1, kInvalidArgument,
           "GradScaler: growth_interval is {}, wanted at least 1", options.growth_interval);
  DL_CHECK(options.init_scale > 0, kInvalidArgument,
           "GradScaler: init_scale is {}, wanted more than 0", options.init_scale);
  require_finite("GradScaler", "growth_factor", options.growth_factor);
  require_finite("GradScaler", "init_scale", options.init_scale);
}

void GradScaler::make_scale(Device device) {
  if (scale_.defined()) return;
  const auto make = [&] {
    scale_ = full({}, first_scale_, {.dtype = DType::kF32, .device = device});
    growth_tracker_ = full({}, first_tracker_, {.dtype = DType::kI32, .device = device});
  };
  // A tape does not make them again: they live on.
  tape::Recorder* const recorder = tape::Recorder::current();
  recorder != nullptr ? recorder->aside(make) : make();
}

Tensor GradScaler::scale(const Tensor& outputs) {
  DL_CHECK(outputs.defined(), kInvalidArgument, "GradScaler::scale: the outputs are undefined");
  if (options_.enabled) make_scale(outputs.device());
  // The program may assign another scaler to this one.
  if (ThreadWatch* const watch = dl::detail::thread_watch) [[unlikely]] {
    watch->needs(this,
                 [this, enabled = options_.enabled, scale = scale_] {
                   return options_.enabled == enabled && scale_.is_same(scale);
                 },
                 {});
  }
  return options_.enabled ? mul(outputs, scale_) : outputs;
}

void GradScaler::forget_broken_capture() {
  if (cuda::capturing()) return;
  std::erase_if(optimizers_, [](const auto& entry) { return entry.second.captured; });
}

void GradScaler::unscale_(const optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  // A tape calls these functions again, so each run does what a call of the program does.
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    return recorder->run_host("scaler_unscale", &optimizer,
                              [this, &optimizer] { unscale_(optimizer); });
  }
  forget_broken_capture();
  DL_CHECK(scale_.defined(), kInvalidArgument,
           "GradScaler::unscale_: nothing was scaled yet; call scale(loss).backward() before it");
  DL_CHECK(!optimizers_.contains(&optimizer), kInvalidArgument,
           "GradScaler::unscale_: called a second time, or after step(), since the last update()");
  const NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& p : optimizer.parameters()) {
    const Tensor grad = p.grad();
    if (!grad.defined()) continue;
    DL_CHECK(grad.device() == scale_.device(), kInvalidArgument,
             "GradScaler::unscale_: a gradient is on {}, the scaled loss was on {}",
             grad.device().str(), scale_.device().str());
    gradients.push_back(grad);
  }
  DL_CHECK(!gradients.empty(), kInvalidArgument,
           "GradScaler: no parameter of the optimizer has a gradient; was backward() called?");
  const Tensor found_inf = zeros({}, {.device = scale_.device()});
  call<Op::kAmpUnscale>(scale_.device(), 1.0 / scale_, std::span<const Tensor>(gradients),
                        found_inf);
  for (const Tensor& grad : gradients) grad.bump_version();
  optimizers_.emplace(&optimizer, Stepped{found_inf, false, cuda::capturing()});
}

void GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    return recorder->run_host("scaler_step", &optimizer, [this, &optimizer] { step(optimizer); });
  }
  forget_broken_capture();
  if (!optimizers_.contains(&optimizer)) unscale_(optimizer);
  Stepped& stepped = optimizers_.at(&optimizer);
  DL_CHECK(!stepped.stepped, kInvalidArgument,
           "GradScaler::step: called a second time for this optimizer since the last update()");
  optimizer.step_unless(stepped.found_inf);
  stepped.stepped = true;  // a step that threw can be repeated
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    // The number is in the name, so that another one in a later call is seen.
    const std::string name =
        new_scale ? fmt::format("scaler_update({})", *new_scale) : std::string("scaler_update");
    return recorder->run_host(name, this, [this, new_scale] { update(new_scale); });
  }
  const NoGradGuard no_grad;
  if (new_scale) {
    DL_CHECK(*new_scale > 0, kInvalidArgument, "GradScaler::update: got {}, wanted more than 0",
             *new_scale);
    first_scale_ = *new_scale;
    if (scale_.defined()) scale_.fill_(*new_scale);
  } else {
    DL_CHECK(!optimizers_.empty(), kInvalidArgument,
             "GradScaler::update: nothing was stepped or unscaled since the last update()");
    Tensor found_inf;
    for (const auto& [optimizer, stepped] : optimizers_) {
      if (found_inf.defined()) {
        found_inf.add_(stepped.found_inf);
      } else {
        found_inf = stepped.found_inf;
      }
    }
    call<Op::kAmpUpdateScale>(scale_.device(), scale_, growth_tracker_, found_inf,
                              kernels::ScaleUpdate{.growth_factor = options_.growth_factor,
                                                   .backoff_factor = options_.backoff_factor,
                                                   .growth_interval = options_.growth_interval});
    scale_.bump_version();
    growth_tracker_.bump_version();
  }
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1.0;
  dl::detail::not_repeatable("a GradScaler's scale is read");
  return scale_.defined() ? scale_.item<double>() : first_scale_;
}

nn::StateDict GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  const double scale = get_scale();
  const auto tracker =
      growth_tracker_.defined() ? growth_tracker_.item<std::int32_t>() : first_tracker_;
  return {{"scale", tensor(scale, {.dtype = DType::kF64})},
          {"growth_factor", tensor(options_.growth_factor, {.dtype = DType::kF64})},
          {"backoff_factor", tensor(options_.backoff_factor, {.dtype = DType::kF64})},
          {"growth_interval", tensor(options_.growth_interval)},
          {"_growth_tracker", tensor(tracker, {.dtype = DType::kI32})}};
}

void GradScaler::load_state_dict(const nn::StateDict& state) {
  if (!options_.enabled) return;
  const auto number = [&]<typename T>(std::string_view name, T) {
    for (const nn::NamedTensor& entry : state) {
      if (entry.name == name) return entry.tensor.item<T>();
    }
    throw_error(ErrorKind::kMismatch,
                "GradScaler: load_state_dict: \"{}\" is missing; was the state saved by a scaler "
                "that was enabled?",
                name);
  };
  GradScalerOptions options = options_;
  const double scale = number("scale", 0.0);
  options.growth_factor = number("growth_factor", 0.0);
  options.backoff_factor = number("backoff_factor", 0.0);
  options.growth_interval = number("growth_interval", std::int64_t{0});
  const std::int32_t tracker = number("_growth_tracker", std::int32_t{0});
  options_ = options;
  first_scale_ = scale;
  first_tracker_ = tracker;
  if (scale_.defined()) {
    scale_.fill_(scale);
    growth_tracker_.fill_(tracker);
  }
}

void GradScaler::load_value(const nn::Value& state) {
  nn::StateDict flat;
  for (const auto& [key, value] : state.as_dict()) {
    const std::optional<double> number = key.is_string() ? value.number() : std::nullopt;
    DL_CHECK(
        number, kMismatch,
        "GradScaler: load_state_dict: the state is no dict of names and numbers; does it stand "
        "under another key of the file?");
    flat.push_back({key.as_string(), value.is_int() ? tensor(value.as_int())
                                                    : tensor(*number, {.dtype = DType::kF64})});
  }
  load_state_dict(flat);
}

}  // namespace dl::amp
