#include "examples/support/training/step.h"

#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "examples/support/training/report/blame.h"
#include "nn/utils/clip_grad.h"

namespace dl::examples {

AutocastOptions mixed_precision(const RunOptions& run) {
  return {.dtype = run.amp == "f16" ? DType::kF16 : DType::kBF16, .enabled = run.amp != "off"};
}

Step::Step(const StepOptions& options, const RunOptions& run, Device device,
           const Ref<collectives::ProcessGroup>& group)
    : options_(options),
      run_(run),
      device_(device),
      ddp_(options.model, group),
      optimizer_(
          find_optimizer(run.optimizer)
              .make(options.parameters(options.model),
                    {.lr = run.lr, .momentum = run.momentum, .weight_decay = run.weight_decay})),
      // bf16 has f32's range; only f16's gradients need to be scaled.
      scaler_({.enabled = run.amp == "f16"}) {
  if (options.average != nullptr) {
    average_.emplace(*options.average, options.model,
                     optim::swa_utils::AveragedModelOptions{.ema_decay = options.ema});
  }
}

Tensor Step::part_of(const Tensor& batch, std::int64_t i) const {
  if (options_.accumulate == 1) return batch;
  const std::int64_t samples = batch.size(0) / options_.accumulate;
  return batch.narrow(0, i * samples, samples);
}

Tensor Step::forward_backward_part(const Tensor& x, const Tensor& y) {
  Tensor loss;
  {
    const autocast cast(device_.type, mixed_precision(run_));
    loss = options_.loss(ddp_(x), y);
  }
  if (options_.accumulate > 1) loss = loss / static_cast<double>(options_.accumulate);
  scaler_.scale(loss).backward();
  return loss;
}

Tensor Step::forward_backward(const Tensor& x, const Tensor& y) {
  optimizer_->zero_grad();
  Tensor sum;
  for (std::int64_t i = 0; i < options_.accumulate; ++i) {
    std::optional<nn::parallel::NoSync> alone;  // only the last part exchanges the gradients
    if (i + 1 < options_.accumulate) alone.emplace(ddp_.no_sync());
    const Tensor loss = forward_backward_part(part_of(x, i), part_of(y, i));
    sum = sum.defined() ? sum + loss.detach() : loss.detach();
  }
  return sum;
}

void Step::update() {
  if (run_.clip_norm > 0) {
    scaler_.unscale_(*optimizer_);
    nn::utils::clip_grad_norm_(optimizer_->parameters(), run_.clip_norm);
  }
  scaler_.step(*optimizer_);
  scaler_.update();
  if (average_) average_->update_parameters();
}

void Step::require_finite(double loss, const Tensor& x, std::int64_t step_of_run) {
  if (std::isfinite(loss)) return;
  std::string blamed = kAllFinite;
  for (std::int64_t i = 0; i < options_.accumulate && blamed == kAllFinite; ++i) {
    const autocast cast(device_.type, mixed_precision(run_));
    blamed = blame_for(options_.model, part_of(x, i).to(device_));
  }
  throw_error(ErrorKind::kInvalidArgument,
              "the loss of step {} is {}: {}; try a smaller --lr, {} or --clip-norm{}", step_of_run,
              loss, blamed, options_.slower_start, run_.amp == "off" ? "" : ", or --amp off");
}

}  // namespace dl::examples
