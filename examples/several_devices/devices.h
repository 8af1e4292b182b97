// The devices on which the examples compute.
#pragma once

#include "core/device/cuda/cuda.h"

namespace dl::examples::several_devices {

// GPU `index`, the last GPU if there are fewer, the CPU if there are none.
inline Device device_number(int index) {
  const int count = cuda::device_count();
  if (count == 0) return {};
  return {DeviceType::kCUDA, static_cast<std::int16_t>(index < count ? index : count - 1)};
}

}  // namespace dl::examples::several_devices
