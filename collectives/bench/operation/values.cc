#include "collectives/bench/operation/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace dl::collectives::bench {
namespace {

// Values repeat with a period that no power of two divides.
constexpr std::size_t kPeriod = 251;
constexpr std::size_t kMostBytes = 8;  // of an element

// 0, 1 or 2: sums over 128 ranks are exact in bf16, products are powers of two.
std::uint64_t value(int rank, std::size_t place) {
  std::uint32_t h = static_cast<std::uint32_t>(place % kPeriod) * 2654435761U +
                    static_cast<std::uint32_t>(rank) * 40503U;
  h = (h ^ (h >> 15)) * 2246822519U;
  return (h ^ (h >> 13)) % 3;
}

// Rounds to nearest, ties to even; x is not negative.
std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t to_f16(float x) {
  constexpr float kLeastNormal = 0x1p-14F;
  if (x < kLeastNormal) return static_cast<std::uint16_t>(std::nearbyint(x * 0x1p24F));
  if (x >= 65520.0F) return 0x7c00;  // infinity
  // Changes the exponent's bias from 127 to 15 and rounds 13 bits off; a carry into the exponent is
  // correct.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) - (112U << 23);
  return static_cast<std::uint16_t>((bits + 0xfff + ((bits >> 13) & 1)) >> 13);
}

template <typename T>
void put(std::byte* at, T x) {
  std::memcpy(at, &x, sizeof x);
}

void put_whole(DType dtype, std::byte* at, std::uint64_t x) {
  if (dtype == DType::kBool) return put(at, static_cast<std::uint8_t>(x != 0));
  std::memcpy(at, &x, size_of(dtype));  // little-endian; modulo 2^n, as reductions are
}

// Writes `x` as a reduction does: f16 and bf16 are accumulated in f32, then rounded once.
void put_floating(DType dtype, std::byte* at, double x) {
  if (dtype == DType::kF64) return put(at, x);
  const auto single = static_cast<float>(x);
  if (dtype == DType::kF32) return put(at, single);
  put(at, dtype == DType::kF16 ? to_f16(single) : to_bf16(single));
}

void put_value(DType dtype, std::byte* at, std::uint64_t x) {
  is_floating(dtype) ? put_floating(dtype, at, static_cast<double>(x)) : put_whole(dtype, at, x);
}

template <typename T>
T reduced(ReduceOp op, int ranks, std::size_t place, T (*of)(std::uint64_t)) {
  T total = of(value(0, place));
  for (int rank = 1; rank < ranks; ++rank) {
    const T x = of(value(rank, place));
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        total += x;
        break;
      case ReduceOp::kProd:
        total *= x;
        break;
      case ReduceOp::kMin:
        total = std::min(total, x);
        break;
      case ReduceOp::kMax:
        total = std::max(total, x);
        break;
      default: {
        // Bitwise reductions are undefined for floating types.
        const auto a = static_cast<std::uint64_t>(total);
        const auto b = static_cast<std::uint64_t>(x);
        total = static_cast<T>(op == ReduceOp::kBand  ? a & b
                               : op == ReduceOp::kBor ? a | b
                                                      : a ^ b);
      }
    }
  }
  return total;
}

void put_reduced(DType dtype, ReduceOp op, int ranks, std::byte* at, std::size_t place) {
  if (dtype == DType::kF64) {
    double x = reduced<double>(op, ranks, place, [](std::uint64_t v) -> double { return v; });
    put(at, op == ReduceOp::kAvg ? x / ranks : x);
  } else if (is_floating(dtype)) {
    const float x = reduced<float>(op, ranks, place, [](std::uint64_t v) -> float { return v; });
    put_floating(dtype, at, op == ReduceOp::kAvg ? x / static_cast<float>(ranks) : x);
  } else {
    const auto x =
        dtype == DType::kBool
            ? reduced<std::uint64_t>(
                  op, ranks, place, [](std::uint64_t v) -> std::uint64_t { return v != 0 ? 1 : 0; })
            : reduced<std::uint64_t>(op, ranks, place, [](std::uint64_t v) { return v; });
    put_whole(dtype, at, op == ReduceOp::kAvg ? x / static_cast<std::uint64_t>(ranks) : x);
  }
}

// Computes `put_at(place, at)` for the places of one period, and repeats them.
template <typename Put>
void repeat(DType dtype, std::byte* to, std::size_t count, const Put& put_at) {
  const std::size_t element = size_of(dtype);
  const std::size_t distinct = std::min(kPeriod, count);
  std::array<std::byte, kPeriod * kMostBytes> pattern;
  for (std::size_t i = 0; i < distinct; ++i) put_at(i, pattern.data() + i * element);
  for (std::size_t i = 0; i < count; i += kPeriod) {
    std::memcpy(to + i * element, pattern.data(), std::min(kPeriod, count - i) * element);
  }
}

}  // namespace

void fill(DType dtype, int rank, std::byte* to, std::size_t count, std::size_t from) {
  repeat(dtype, to, count,
         [&](std::size_t i, std::byte* at) { put_value(dtype, at, value(rank, from + i)); });
}

void fill_reduced(DType dtype, ReduceOp op, int ranks, std::byte* to, std::size_t count,
                  std::size_t from) {
  repeat(dtype, to, count,
         [&](std::size_t i, std::byte* at) { put_reduced(dtype, op, ranks, at, from + i); });
}

std::size_t count_different(DType dtype, const std::byte* a, const std::byte* b,
                            std::size_t count) {
  const std::size_t element = size_of(dtype);
  if (count == 0 || std::memcmp(a, b, count * element) == 0) return 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) {
    different += std::memcmp(a + i * element, b + i * element, element) != 0 ? 1 : 0;
  }
  return different;
}

}  // namespace dl::collectives::bench
