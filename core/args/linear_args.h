// What kernels that multiply matrices are told besides tensors, on every device: the activations
// that a linear layer fuses, and the arguments of attention.
#pragma once

#include <cstdint>

#include "core/elementwise/list.h"

namespace dl::kernels {

// The function that follows x W^T + b. GELU is the tanh form only: cuBLASLt does not fuse the exact
// form.
enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh };

// The element-wise operation of an activation; `activation` is not kNone.
constexpr UnaryFn unary_of(Activation activation) noexcept {
  return activation == Activation::kRelu ? UnaryFn::kRelu : UnaryFn::kGeluTanh;
}
// kNone if no kernel fuses `fn` into a linear layer.
constexpr Activation activation_of(UnaryFn fn) noexcept {
  if (fn == UnaryFn::kRelu) return Activation::kRelu;
  return fn == UnaryFn::kGeluTanh ? Activation::kGeluTanh : Activation::kNone;
}

// Bytes of one row of the mask that a fused ReLU saves: one bit per column, rounded up to 128 bits,
// as cuBLASLt requires.
constexpr std::int64_t relu_mask_row_bytes(std::int64_t columns) noexcept {
  return (columns + 127) / 128 * 16;
}

}  // namespace dl::kernels

namespace dl {

struct AttentionArgs {
  double scale = 1;      // of the scores
  bool causal = false;   // query i sees keys 0 to i
  double dropout_p = 0;  // of the shares

  bool operator==(const AttentionArgs&) const = default;
};

}  // namespace dl
