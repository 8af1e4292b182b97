// GradScaler: scales the loss so that small float16 gradients do not underflow, like
// torch.amp.GradScaler.
//
//     amp::GradScaler scaler;
//     for (const data::Batch& batch : loader) {
//       optimizer.zero_grad();
//       Tensor loss;
//       {
//         const autocast mixed(DeviceType::kCUDA);
//         loss = cross_entropy(model(batch[0]), batch[1]);
//       }
//       scaler.scale(loss).backward();
//       scaler.step(optimizer);
//       scaler.update();
//     }
//
// The loss is multiplied by a scale, and the gradients are divided by it before the step. If a
// gradient is infinite or NaN, the step is skipped and the scale is multiplied by backoff_factor;
// after growth_interval steps without one it is multiplied by growth_factor. Scale, counter and
// found_inf are 0-d tensors on the device of the loss: on CUDA only get_scale() and state_dict()
// wait for the device. bfloat16 has float32's range and needs no scaler.
//
// All parameters must be on the device of the loss. Thread-safety: none; it belongs on the thread
// that trains.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "core/tensor/tensor.h"
#include "nn/optim/optimizer.h"
#include "nn/serialize/state_dict.h"
#include "nn/serialize/value.h"

namespace dl::amp {

struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;   // more than 1
  double backoff_factor = 0.5;  // less than 1
  std::int64_t growth_interval = 2000;
  bool enabled =
      true;  // false: scale() returns its argument, step() only steps, update() does nothing
};

class GradScaler {
 public:
  // Throws kInvalidArgument for a bad option.
  explicit GradScaler(GradScalerOptions options = {});

  // outputs * scale, recorded.
  Tensor scale(const Tensor& outputs);
  // Divides the gradients of the optimizer's parameters by the scale, so that they can be inspected
  // or clipped before step(). Once for each optimizer between two update(); throws kInvalidArgument
  // otherwise.
  void unscale_(const optim::Optimizer& optimizer);
  // unscale_() unless that was called, and the optimizer's step unless a gradient is infinite or
  // NaN. Throws kInvalidArgument if called twice before update(), or if no parameter has a
  // gradient.
  void step(optim::Optimizer& optimizer);
  // Computes the next scale, after the steps of all optimizers; `new_scale` sets it instead. Throws
  // kInvalidArgument if nothing was stepped or unscaled since the last update().
  void update(std::optional<double> new_scale = {});

  bool is_enabled() const noexcept { return options_.enabled; }
  double get_scale() const;  // waits for the device; 1 if disabled
  double get_growth_factor() const noexcept { return options_.growth_factor; }
  double get_backoff_factor() const noexcept { return options_.backoff_factor; }
  std::int64_t get_growth_interval() const noexcept { return options_.growth_interval; }

  // PyTorch's names: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker; all
  // 0-d tensors on the CPU. Empty if disabled. load_state_dict() throws kMismatch if a name is
  // missing, and then changes nothing.
  nn::StateDict state_dict() const;
  void load_state_dict(const nn::StateDict& state);
  // Loads a dict of numbers or tensors, as nn::load_pth() returns PyTorch's state. Throws kMismatch
  // also for another value.
  template <std::same_as<nn::Value> V>
  void load_state_dict(const V& state) {
    load_value(state);
  }

 private:
  struct Stepped {
    Tensor found_inf;  // 0-d float32, nonzero if a gradient was infinite or NaN
    bool stepped = false;
    bool captured = false;  // inside a CUDA graph's capture
  };

  void load_value(const nn::Value& state);

  // Resets state that an aborted capture left: its work never ran.
  void forget_broken_capture();

  void make_scale(Device device);

  GradScalerOptions options_;
  double first_scale_;              // initial value of scale_
  std::int32_t first_tracker_ = 0;  // and of growth_tracker_
  Tensor scale_;                    // 0-d float32; undefined before the first scale()
  Tensor growth_tracker_;           // 0-d int32
  std::unordered_map<const optim::Optimizer*, Stepped> optimizers_;  // since the last update()
};

}  // namespace dl::amp
