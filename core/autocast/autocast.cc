#include "core/autocast/autocast.h"

#include <unordered_map>

#include "core/base/log/warn_once.h"
#include "core/device/cpu_bfloat16.h"

namespace dl {
namespace {

constexpr std::size_t at(DeviceType device) noexcept {
  return static_cast<std::size_t>(device);
}

struct Kept {
  Tensor weight;  // keeps the TensorImpl alive, so that its address is not used again
  std::uint32_t version;
  bool tracked;
  Tensor cast;
};

struct Casts {
  std::size_t guards = 0;
  std::unordered_map<const TensorImpl*, Kept> kept;
};
thread_local Casts casts;

}  // namespace

namespace detail {

constinit thread_local AutocastState autocast_state;

Tensor find_autocast(const Tensor& weight, DType dtype, bool tracked) {
  const auto found = casts.kept.find(weight.impl());
  if (found == casts.kept.end()) return {};
  const Kept& kept = found->second;
  const bool good =
      kept.cast.dtype() == dtype && kept.version == weight.version() && kept.tracked == tracked;
  return good ? kept.cast : Tensor();
}

void keep_autocast(const Tensor& weight, const Tensor& cast, bool tracked) {
  casts.kept.insert_or_assign(weight.impl(), Kept{weight, weight.version(), tracked, cast});
}

void drop_autocasts() noexcept {
  casts.kept.clear();
}

}  // namespace detail

bool is_autocast_enabled(DeviceType device) noexcept {
  return detail::autocast_state.enabled[at(device)];
}

DType get_autocast_dtype(DeviceType device) noexcept {
  return detail::autocast_state.dtype[at(device)];
}

autocast::autocast(DeviceType device, AutocastOptions options) : before_(detail::autocast_state) {
  const DType dtype = options.dtype.value_or(get_autocast_dtype(device));
  DL_CHECK(dtype == DType::kF16 || dtype == DType::kBF16, kDType,
           "autocast: dtype is {}, wanted float16 or bfloat16", name_of(dtype));
  if (device == DeviceType::kCPU && options.enabled && dtype == DType::kBF16 &&
      !cpu_has_bfloat16()) {
    warn_once(
        "autocast: this CPU has no instructions for bfloat16: what it speeds up elsewhere is "
        "computed in float32 and rounded here");
  }
  detail::autocast_state.enabled[at(device)] = options.enabled;
  detail::autocast_state.dtype[at(device)] = dtype;
  detail::autocast_state.cache_enabled = options.cache_enabled;
  ++casts.guards;
}

autocast::~autocast() {
  detail::autocast_state = before_;
  if (--casts.guards == 0) casts.kept.clear();
}

}  // namespace dl
