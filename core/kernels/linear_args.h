// What a linear layer is computed together with, on every device.
#pragma once

#include <cstdint>

namespace dl {

// The function that follows x W^T + b. GELU stands here in its tanh form only: libraries that fuse
// it have no other.
enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh };

// Bytes of a row of a ReLU's mask: one bit a column, in multiples of 128 bits as cuBLASLt wants
// them.
constexpr std::int64_t relu_mask_bytes(std::int64_t columns) noexcept {
  return (columns + 127) / 128 * 16;
}

}  // namespace dl
