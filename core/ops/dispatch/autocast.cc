#include "core/ops/dispatch/autocast.h"

#include "core/autograd/grad_mode.h"

namespace dl {

InputCast::InputCast(AutocastPolicy policy, DeviceType device) noexcept
    : before_(detail::autocast_state.enabled),
      device_(device),
      active_(casts(policy) && before_[static_cast<std::size_t>(device)]) {
  if (!active_) return;
  if (policy == AutocastPolicy::kLow) dtype_ = get_autocast_dtype(device);
  detail::autocast_state.enabled = {};
}

Tensor InputCast::operator()(const Tensor& input) const {
  if (!input.defined() || !is_floating(input.dtype()) || input.dtype() == DType::kF64 ||
      input.dtype() == dtype_ || input.device().type != device_) {
    return input;
  }
  const bool is_weight = input.dtype() == DType::kF32 && input.requires_grad() && input.is_leaf() &&
                         !input.impl()->base && detail::autocast_state.cache_enabled;
  if (!is_weight) return input.to(dtype_);
  const bool tracked = is_grad_enabled();
  if (Tensor kept = detail::find_autocast(input, dtype_, tracked); kept.defined()) return kept;
  Tensor cast = input.to(dtype_);
  detail::keep_autocast(input, cast, tracked);
  return cast;
}

}  // namespace dl
