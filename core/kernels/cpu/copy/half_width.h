// f16 and bf16 in kernels that compute in f32: operands are widened, the kernel runs, and its
// result is rounded once.
#pragma once

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

}  // namespace dl::kernels::cpu
