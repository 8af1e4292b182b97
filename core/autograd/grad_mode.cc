
#include <utility>

#include "core/autograd/anomaly.h"
#include "core/autograd/grad_mode.h"

namespace dl {

constinit thread_local detail::Modes detail::modes;

using detail::modes;

bool is_grad_enabled() noexcept {
  return modes.grad && !modes.inference;
}

bool set_grad_enabled(bool enabled) noexcept {
  return std::exchange(modes.grad, enabled);
}

bool is_inference_mode_enabled() noexcept {
  return modes.inference;
}

InferenceMode::InferenceMode(bool enabled) noexcept
    : grad_before_(set_grad_enabled(!enabled)),
      inference_before_(std::exchange(modes.inference, enabled)) {}

InferenceMode::~InferenceMode() {
  modes.grad = grad_before_;
  modes.inference = inference_before_;
}

namespace autograd {

bool is_anomaly_enabled() noexcept {
  return modes.anomaly;
}

bool is_anomaly_check_nan_enabled() noexcept {
  return modes.check_nan;
}

void set_detect_anomaly(bool enabled, AnomalyOptions options) noexcept {
  modes.anomaly = enabled;
  modes.check_nan = enabled && options.check_nan;
}

}  // namespace autograd
}  // namespace dl
