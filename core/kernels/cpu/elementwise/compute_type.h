// Compute types: kernels convert the elements of every dtype to float32, float64 or int64.
//
// Conversions between all pairs of dtypes, and arithmetic on the narrower ones, go through a
// compute type block by block, so that a loop is compiled for few types and not for thirteen.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.h"
#include "core/tensor/half.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

inline constexpr std::int64_t kBlock = 256;  // elements of a block: three blocks fit into L1

// The dtype in which arithmetic on `dtype` is computed (PyTorch's opmath): float32 for float16 and
// bfloat16, int64 for integers and bool (uint64: the same bits).
constexpr DType compute_dtype_of(DType dtype) noexcept {
  if (!is_floating(dtype)) return DType::kI64;
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// Load converts elements that are `step` apart (in elements) to a dense block of the compute type;
// Store converts back.
using Load = void (*)(const void* from, std::int64_t step, void* block, std::int64_t count);
using Store = void (*)(const void* block, void* to, std::int64_t step, std::int64_t count);

// `compute_dtype` is kF32, kF64 or kI64; uint64 loaded as a floating type keeps its value.
Load load_as(DType dtype, DType compute_dtype) noexcept;
Store store_from(DType compute_dtype, DType dtype) noexcept;

// Vectorised conversions of dense runs between float16 or bfloat16 and float32. Rounds to nearest
// even, as Half and BFloat16 do; NaN stays NaN.
void widen(const BFloat16* from, float* to, std::int64_t count) noexcept;
void widen(const Half* from, float* to, std::int64_t count) noexcept;
void narrow(const float* from, BFloat16* to, std::int64_t count) noexcept;
void narrow(const float* from, Half* to, std::int64_t count) noexcept;

}  // namespace dl::kernels::cpu
