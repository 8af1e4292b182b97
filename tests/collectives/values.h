// Arrays of any dtype for the collectives' tests: filled from numbers, read back as numbers.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/tensor/dtype.h"

namespace dl::collectives::testing {

using Bytes = std::vector<std::byte>;

inline constexpr DType kAllDTypes[] = {
    DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kI8,  DType::kU8,  DType::kI16,
    DType::kU16, DType::kI32,  DType::kU32, DType::kI64, DType::kU64, DType::kBool};

// The slow, obvious conversions that the vectorised ones are compared with.
inline double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}
inline double bfloat_value(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// The nearest of all 65536 patterns, ties to the even one.
template <double (*kValue)(std::uint16_t)>
std::uint16_t nearest(double value) {
  if (std::isnan(value)) return 0x7fff;
  std::uint16_t low = 0;
  std::uint16_t high = 0x7fff;
  while (std::isnan(kValue(high))) --high;  // infinity
  const double magnitude = std::fabs(value);
  while (low < high) {  // the first pattern that is not smaller
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    if (kValue(middle) < magnitude) {
      low = static_cast<std::uint16_t>(middle + 1);
    } else {
      high = middle;
    }
  }
  std::uint16_t best = low;
  if (low > 0 && kValue(low) != magnitude) {
    const auto below = static_cast<std::uint16_t>(low - 1);
    // What would be the next finite value stands for infinity in rounding.
    const double above = std::isinf(kValue(low))
                             ? 2 * kValue(below) - kValue(static_cast<std::uint16_t>(below - 1))
                             : kValue(low);
    const double to_above = above - magnitude;
    const double to_below = magnitude - kValue(below);
    if (to_below < to_above || (to_below == to_above && (below & 1) == 0)) best = below;
  }
  return static_cast<std::uint16_t>(best | (std::signbit(value) ? 0x8000 : 0));
}

template <typename T>
void put_as(Bytes& to, std::size_t i, T value) {
  std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
}
template <typename T>
T get_as(const Bytes& from, std::size_t i) {
  T value;
  std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
  return value;
}

inline void put(Bytes& to, DType dtype, std::size_t i, double value) {
  switch (dtype) {
    case DType::kF16:
      return put_as(to, i, nearest<half_value>(value));
    case DType::kBF16:
      return put_as(to, i, nearest<bfloat_value>(value));
    case DType::kF32:
      return put_as(to, i, static_cast<float>(value));
    case DType::kF64:
      return put_as(to, i, value);
    case DType::kI8:
      return put_as(to, i, static_cast<std::int8_t>(value));
    case DType::kU8:
      return put_as(to, i, static_cast<std::uint8_t>(value));
    case DType::kI16:
      return put_as(to, i, static_cast<std::int16_t>(value));
    case DType::kU16:
      return put_as(to, i, static_cast<std::uint16_t>(value));
    case DType::kI32:
      return put_as(to, i, static_cast<std::int32_t>(value));
    case DType::kU32:
      return put_as(to, i, static_cast<std::uint32_t>(value));
    case DType::kI64:
      return put_as(to, i, static_cast<std::int64_t>(value));
    case DType::kU64:
      return put_as(to, i, static_cast<std::uint64_t>(value));
    case DType::kBool:
      return put_as(to, i, static_cast<std::uint8_t>(value != 0));
  }
}

inline double get(const Bytes& from, DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::kF16:
      return half_value(get_as<std::uint16_t>(from, i));
    case DType::kBF16:
      return bfloat_value(get_as<std::uint16_t>(from, i));
    case DType::kF32:
      return get_as<float>(from, i);
    case DType::kF64:
      return get_as<double>(from, i);
    case DType::kI8:
      return get_as<std::int8_t>(from, i);
    case DType::kU8:
    case DType::kBool:
      return get_as<std::uint8_t>(from, i);
    case DType::kI16:
      return get_as<std::int16_t>(from, i);
    case DType::kU16:
      return get_as<std::uint16_t>(from, i);
    case DType::kI32:
      return get_as<std::int32_t>(from, i);
    case DType::kU32:
      return get_as<std::uint32_t>(from, i);
    case DType::kI64:
      return static_cast<double>(get_as<std::int64_t>(from, i));
    case DType::kU64:
      return static_cast<double>(get_as<std::uint64_t>(from, i));
  }
  return 0;
}

}  // namespace dl::collectives::testing
