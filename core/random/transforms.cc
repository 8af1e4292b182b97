// Built with -ffp-contract=off: every fused multiply-add below is written out, and nothing else is
// fused. -fno-math-errno and -fno-trapping-math let the loops become vectors; they change no value.
#include "core/random/transforms.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace dl::random {
namespace {

constexpr std::size_t kPairs = kNormalBlock / 2;

#define DL_INLINE __attribute__((always_inline)) inline

// Cephes logf for normal x > 0.
DL_INLINE float log_f32(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  float e = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 126);
  float m = std::bit_cast<float>((bits & 0x807fffffU) | 0x3f000000U);  // [0.5, 1)
  const bool low = m < 0.707106781186547524F;
  const float again = low ? m : 0.0F;
  m = (m - 1.0F) + again;
  e -= low ? 1.0F : 0.0F;
  const float z = m * m;
  float y = 7.0376836292e-2F;
  y = std::fma(y, m, -1.1514610310e-1F);
  y = std::fma(y, m, 1.1676998740e-1F);
  y = std::fma(y, m, -1.2420140846e-1F);
  y = std::fma(y, m, 1.4249322787e-1F);
  y = std::fma(y, m, -1.6668057665e-1F);
  y = std::fma(y, m, 2.0000714765e-1F);
  y = std::fma(y, m, -2.4999993993e-1F);
  y = std::fma(y, m, 3.3333331174e-1F);
  y *= m;
  y = std::fma(y, z, e * -2.12194440e-4F);
  y = std::fma(z, -0.5F, y);
  return std::fma(e, 0.693359375F, m + y);
}

struct SinCos {
  float sin;
  float cos;
};

// Cephes sincosf for x >= 0.
DL_INLINE SinCos sincos_f32(float x) noexcept {
  const auto octant = (static_cast<std::int32_t>(x * 1.27323954473516F) + 1) & ~1;
  const auto y = static_cast<float>(octant);
  x = std::fma(y, -0.78515625F, x);
  x = std::fma(y, -2.4187564849853515625e-4F, x);
  x = std::fma(y, -3.77489497744594108e-8F, x);
  const float z = x * x;
  float c = 2.443315711809948e-5F;
  c = std::fma(c, z, -1.388731625493765e-3F);
  c = std::fma(c, z, 4.166664568298827e-2F);
  c *= z;
  c = std::fma(c, z, z * -0.5F) + 1.0F;
  float s = -1.9515295891e-4F;
  s = std::fma(s, z, 8.3321608736e-3F);
  s = std::fma(s, z, -1.6666654611e-1F);
  s *= z;
  s = std::fma(s, x, x);
  const bool swapped = (octant & 2) != 0;
  const float sin = swapped ? c : s;
  const float cos = swapped ? s : c;
  const std::uint32_t sin_sign = (static_cast<std::uint32_t>(octant) & 4U) << 29;
  const std::uint32_t cos_sign = (~(static_cast<std::uint32_t>(octant) - 2U) & 4U) << 29;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(sin) ^ sin_sign),
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(cos) ^ cos_sign)};
}

DL_INLINE void transform_f32(float* data, std::size_t blocks, float mean, float std) noexcept {
  constexpr auto kTwoPi = static_cast<float>(2.0 * std::numbers::pi);
  for (std::size_t block = 0; block < blocks; ++block, data += kNormalBlock) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const float radius = std::sqrt(-2.0F * log_f32(1.0F - data[i]));
      const SinCos angle = sincos_f32(kTwoPi * data[i + kPairs]);
      data[i] = std::fma(radius * angle.cos, std, mean);
      data[i + kPairs] = std::fma(radius * angle.sin, std, mean);
    }
  }
}

template <typename T>
DL_INLINE void stretch(T* data, std::size_t count, T low, T high) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = std::fma(data[i], high - low, low);
    data[i] = value == high ? low : value;
  }
}

// The arithmetic twice: with the FMA instruction, and with the C library's fma().
#ifdef __x86_64__
#define DL_FMA __attribute__((target("avx2,fma")))
DL_FMA void transform_f32_fma(float* data, std::size_t blocks, float mean, float std) noexcept {
  transform_f32(data, blocks, mean, std);
}
template <typename T>
DL_FMA void stretch_fma(T* data, std::size_t count, T low, T high) noexcept {
  stretch(data, count, low, high);
}
bool has_fma() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
constexpr auto transform_f32_fma = transform_f32;
template <typename T>
constexpr auto stretch_fma = stretch<T>;
constexpr bool has_fma() noexcept {
  return false;
}
#endif

template <typename T>
void stretch_on_this_cpu(T* data, std::size_t count, T low, T high) noexcept {
  if (has_fma()) {
    stretch_fma(data, count, low, high);
  } else {
    stretch(data, count, low, high);
  }
}

}  // namespace

void normal_from_uniform(float* data, std::size_t blocks, float mean, float std) noexcept {
  if (has_fma()) {
    transform_f32_fma(data, blocks, mean, std);
  } else {
    transform_f32(data, blocks, mean, std);
  }
}

void normal_from_uniform(double* data, std::size_t blocks, double mean, double std) noexcept {
  for (std::size_t block = 0; block < blocks; ++block, data += kNormalBlock) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - data[i]));
      const double theta = 2.0 * std::numbers::pi * data[i + kPairs];
      data[i] = std::fma(radius * std::cos(theta), std, mean);
      data[i + kPairs] = std::fma(radius * std::sin(theta), std, mean);
    }
  }
}

void uniform_from_unit(float* data, std::size_t count, float low, float high) noexcept {
  stretch_on_this_cpu(data, count, low, high);
}

void uniform_from_unit(double* data, std::size_t count, double low, double high) noexcept {
  stretch_on_this_cpu(data, count, low, high);
}

}  // namespace dl::random
