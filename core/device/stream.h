// Device, and Stream: an order of work on a device.
#pragma once

#include <cstdint>
#include <string>

namespace dl {

enum class DeviceType : std::uint8_t { kCPU, kCUDA };

struct Device {
  DeviceType type = DeviceType::kCPU;
  std::int16_t index = 0;
  friend bool operator==(const Device&, const Device&) noexcept = default;
  // PyTorch's spelling: "cpu", "cuda:0".
  std::string str() const {
    return type == DeviceType::kCPU ? "cpu" : "cuda:" + std::to_string(index);
  }
};

// A value. The CPU has one stream, whose work is done when the call returns; a CUDA stream holds a
// cudaStream_t.
struct Stream {
  Device device;
  void* handle = nullptr;
};

}  // namespace dl
