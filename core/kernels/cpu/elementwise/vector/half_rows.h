// Vectorised conversions of dense runs between float16 or bfloat16 and float32. Rounds to nearest
// even, as Half and BFloat16 do; NaN stays NaN.
#pragma once

#include <cstdint>

#include "core/tensor/half.h"

namespace dl::kernels::cpu {

void widen(const BFloat16* from, float* to, std::int64_t count) noexcept;
void widen(const Half* from, float* to, std::int64_t count) noexcept;
void narrow(const float* from, BFloat16* to, std::int64_t count) noexcept;
void narrow(const float* from, Half* to, std::int64_t count) noexcept;

}  // namespace dl::kernels::cpu
