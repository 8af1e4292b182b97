// Half (IEEE binary16) and BFloat16: storage types. Arithmetic on them is done in float.
//
// Conversions from float round to nearest even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

// Marks functions that run on host and device; empty for the host's compiler.
#if defined(__CUDACC__)
#define DL_HOST_DEVICE __host__ __device__
#else
#define DL_HOST_DEVICE
#endif

namespace dl {

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  DL_HOST_DEVICE explicit BFloat16(float value) {
    const auto x = std::bit_cast<std::uint32_t>(value);
    const bool nan = (x & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    bits = static_cast<std::uint16_t>(nan ? (x >> 16) | 0x40u : rounded);
  }
  DL_HOST_DEVICE operator float() const {  // NOLINT(google-explicit-constructor)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  DL_HOST_DEVICE explicit Half(float value) {
    const auto x = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((x >> 16) & 0x8000u);
    const std::uint32_t magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
      bits = static_cast<std::uint16_t>(sign | 0x7e00u);  // NaN
    } else if (magnitude >= 0x477ff000u) {
      bits = static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
    } else if (magnitude < 0x38800000u) {
      // Subnormal: adding 0.5 aligns the last bit of a half's mantissa with a float's, and rounds.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      bits =
          static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    } else {
      const std::uint32_t odd = (magnitude >> 13) & 1u;
      bits = static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
    }
  }
  DL_HOST_DEVICE operator float() const {  // NOLINT(google-explicit-constructor)
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude < 0x0400u) {  // subnormal: the mantissa in units of 2^-24
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  }
};

}  // namespace dl
