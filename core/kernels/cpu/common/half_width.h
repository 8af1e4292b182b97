// Kernels that compute in f32 and f64. For f16 and bf16, operands are widened to f32, the kernel
// runs, and its result is rounded once.
#pragma once

#include <string_view>

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

inline bool is_half_width(const Tensor& tensor) noexcept {
  return tensor.dtype() == DType::kF16 || tensor.dtype() == DType::kBF16;
}

// The tensor as f32 in its own layout (row-major if it has gaps); undefined stays undefined.
Tensor widened(const Tensor& tensor);
// Uninitialised f32 memory for a result that will be rounded into `out`; undefined for undefined.
Tensor wide_like(const Tensor& out);
// Rounds the result into `out`; does nothing for undefined tensors.
void round_into(const Tensor& wide, const Tensor& out);

// Calls body<float>() or body<double>(), by the tensor's dtype; others throw kDType.
template <typename Body>
decltype(auto) visit_f32_f64(const Tensor& tensor, std::string_view op, const Body& body) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return body.template operator()<float>();
    case DType::kF64:
      return body.template operator()<double>();
    default:
      refuse_dtype(op, tensor.dtype(), "a floating dtype");
  }
}

}  // namespace dl::kernels::cpu
