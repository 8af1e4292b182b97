// What a linear layer is computed together with, on every device.
#pragma once

#include <cstdint>

#include "core/elementwise/list.h"

namespace dl::kernels {

// The function that follows x W^T + b. GELU stands here in its tanh form only: libraries that fuse
// it have no other.
enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh };

// The element-wise function of an activation other than kNone.
constexpr UnaryFn unary_of(Activation activation) noexcept {
  return activation == Activation::kRelu ? UnaryFn::kRelu : UnaryFn::kGeluTanh;
}
// kNone for a function that no linear layer is computed together with.
constexpr Activation activation_of(UnaryFn fn) noexcept {
  if (fn == UnaryFn::kRelu) return Activation::kRelu;
  return fn == UnaryFn::kGeluTanh ? Activation::kGeluTanh : Activation::kNone;
}

// Bytes of a row of a ReLU's mask: one bit a column, in multiples of 128 bits as cuBLASLt wants
// them.
constexpr std::int64_t relu_mask_bytes(std::int64_t columns) noexcept {
  return (columns + 127) / 128 * 16;
}

}  // namespace dl::kernels
