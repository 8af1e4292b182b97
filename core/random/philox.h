// Philox 4x32-10, the counter-based generator of Salmon et al. 2011 ("Parallel random numbers: as
// easy as 1, 2, 3"): four random words are a function of a key and a counter, so that any element
// of a tensor can be drawn on any thread of any device, and drawn again in backward.
//
// The key is the seed. As in PyTorch's CUDA generator, an offset counts the words drawn so far and
// is always a multiple of four; offset / 4 is the low half of the counter. Unlike PyTorch's,
// element i uses word i of the stream, so that the numbers depend neither on the GPU nor on how a
// kernel is launched.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/tensor/half.h"

namespace dl::random {

// A position in a stream, as a kernel argument. In a CUDA graph, each launch writes the seed and
// the words drawn before it to `launched` on the device, and `offset` counts from there.
struct PhiloxSeed {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // words, a multiple of 4
  const std::uint64_t* launched = nullptr;
  bool operator==(const PhiloxSeed&) const = default;
};

struct PhiloxWords {
  std::uint32_t word[4];
};

DL_HOST_DEVICE inline PhiloxWords philox4x32_10(PhiloxWords counter, std::uint32_t key0,
                                                std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9u;  // the golden ratio, and sqrt(3) - 1
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Words 4 * block ... 4 * block + 3 of a stream, counted from its offset.
DL_HOST_DEVICE inline PhiloxWords philox_block(const PhiloxSeed& at, std::uint64_t block) {
  const std::uint64_t seed = at.launched == nullptr ? at.seed : at.launched[0];
  const std::uint64_t before = at.launched == nullptr ? 0 : at.launched[1];
  const std::uint64_t position = (before + at.offset) / 4 + block;
  return philox4x32_10(
      {{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

// [0, 1) with 24 random bits, and with 53 of two words.
DL_HOST_DEVICE inline float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
DL_HOST_DEVICE inline double unit_double(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Words 2 * half and 2 * half + 1 of a block as one.
DL_HOST_DEVICE inline std::uint64_t word64(const PhiloxWords& words, int half) {
  const int first = 2 * half;
  return std::uint64_t{words.word[first]} << 32 | words.word[first + 1];
}
// A number in [0, range) from 64 random bits: the high half of their product. Each has the
// probability 1 / range, up to 2^-64.
DL_HOST_DEVICE inline std::uint64_t scaled_down(std::uint64_t bits, std::uint64_t range) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(bits, range);
#else
  __extension__ using Product = unsigned __int128;
  return static_cast<std::uint64_t>((Product{bits} * range) >> 64);
#endif
}
DL_HOST_DEVICE inline bool is_probability(double p) {
  return p >= 0 && p <= 1;  // false for NaN
}

// Two numbers of N(0, 1) from two of [0, 1), by Box and Muller.
template <typename T>
DL_HOST_DEVICE void normal_pair(T u, T v, T (&out)[2]) {
  const T radius = std::sqrt(T(-2) * std::log(T(1) - u));
  const T angle = T(6.283185307179586476925) * v;
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

// The random number of element i of a tensor: four elements of f32 and shorter types share a block,
// two of f64.
template <typename T>
inline constexpr int kPhiloxElements = sizeof(T) == 8 ? 2 : 4;

// The block's elements in [low, high); one that rounds to `high` becomes `low`. T is float or
// double.
template <typename T>
DL_HOST_DEVICE void philox_uniform_block(const PhiloxWords& words, T low, T high,
                                         T (&out)[kPhiloxElements<T>]) {
  for (std::ptrdiff_t i = 0; i < kPhiloxElements<T>; ++i) {
    T unit;
    if constexpr (sizeof(T) == 8) {
      unit = unit_double(words.word[2 * i], words.word[2 * i + 1]);
    } else {
      unit = unit_float(words.word[i]);
    }
    const T value = std::fma(unit, high - low, low);
    out[i] = value >= high ? low : value;
  }
}

template <typename T>
DL_HOST_DEVICE void philox_normal_block(const PhiloxWords& words, T mean, T std,
                                        T (&out)[kPhiloxElements<T>]) {
  for (std::ptrdiff_t pair = 0; pair < kPhiloxElements<T> / 2; ++pair) {
    T normal[2];
    if constexpr (sizeof(T) == 8) {
      normal_pair<T>(unit_double(words.word[0], words.word[1]),
                     unit_double(words.word[2], words.word[3]), normal);
    } else {
      normal_pair<T>(unit_float(words.word[2 * pair]), unit_float(words.word[2 * pair + 1]),
                     normal);
    }
    for (std::ptrdiff_t i = 0; i < 2; ++i) out[2 * pair + i] = std::fma(normal[i], std, mean);
  }
}

}  // namespace dl::random
