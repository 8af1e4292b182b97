// Transforms uniform numbers of [0, 1) into other distributions, bit for bit as PyTorch does.
#pragma once

#include <cstddef>

namespace dl::random {

inline constexpr std::size_t kNormalBlock = 16;

// `data` holds `blocks` blocks of 16 numbers of [0, 1) and receives N(mean, std^2): numbers i and
// i + 8 of a block give cosine and sine of one pair.
//
// The f32 transform evaluates the Cephes polynomials (S. Moshier, 1992) that PyTorch's AVX2 build
// uses for log, sin and cos, with a fused multiply-add wherever that build has one; it therefore
// gives the same bits on every CPU. The f64 one calls the C library, as PyTorch's does.
void normal_from_uniform(float* data, std::size_t blocks, float mean, float std) noexcept;
void normal_from_uniform(double* data, std::size_t blocks, double mean, double std) noexcept;

// data = data * (high - low) + low, fused; a result that rounds to `high` becomes `low`.
void uniform_from_unit(float* data, std::size_t count, float low, float high) noexcept;
void uniform_from_unit(double* data, std::size_t count, double low, double high) noexcept;

}  // namespace dl::random
