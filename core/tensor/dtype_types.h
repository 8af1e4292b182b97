// The C++ type of each DType, and calls of a template for a DType known at run time.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"

namespace dl {

template <typename T>
struct DTypeOf;
// clang-format off
#define DL_DTYPE_TYPES(X) \
  X(kF16, Half) \
  X(kBF16, BFloat16) \
  X(kF32, float) \
  X(kF64, double) \
  X(kI8, std::int8_t) \
  X(kU8, std::uint8_t) \
  X(kI16, std::int16_t) \
  X(kU16, std::uint16_t) \
  X(kI32, std::int32_t) \
  X(kU32, std::uint32_t) \
  X(kI64, std::int64_t) \
  X(kU64, std::uint64_t) \
  X(kBool, bool)
// clang-format on
#define DL_DTYPE_OF(enumerator, type)                 \
  template <>                                         \
  struct DTypeOf<type> {                              \
    static constexpr DType value = DType::enumerator; \
  };
DL_DTYPE_TYPES(DL_DTYPE_OF)
#undef DL_DTYPE_OF
template <typename T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

template <typename T>
inline constexpr bool kIsReduced = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// The type in which arithmetic on T is computed.
template <typename T>
using OpMath = std::conditional_t<kIsReduced<T>, float, T>;

// "exp: int64 is not supported; wanted a floating dtype"
[[noreturn]] void refuse_dtype(std::string_view op, DType dtype, std::string_view wanted);

#define DL_DTYPE_CASE(enumerator, type) \
  case DType::enumerator:               \
    return body.template operator()<type>();

// visit_all(dtype, [&]<typename T>() { ... }); the others visit fewer types, and throw kDType for
// the rest.
template <typename Body>
decltype(auto) visit_all(DType dtype, Body&& body) {
  switch (dtype) { DL_DTYPE_TYPES(DL_DTYPE_CASE) }
  refuse_dtype("visit", dtype, "a dtype");
}

template <typename Body>
decltype(auto) visit_floating(DType dtype, std::string_view op, Body&& body) {
  switch (dtype) {
    DL_DTYPE_CASE(kF16, Half)
    DL_DTYPE_CASE(kBF16, BFloat16)
    DL_DTYPE_CASE(kF32, float)
    DL_DTYPE_CASE(kF64, double)
    default:
      refuse_dtype(op, dtype, "a floating dtype");
  }
}

// Every dtype except bool, which has no arithmetic.
template <typename Body>
decltype(auto) visit_numeric(DType dtype, std::string_view op, Body&& body) {
  switch (dtype) {
    DL_DTYPE_CASE(kF16, Half)
    DL_DTYPE_CASE(kBF16, BFloat16)
    DL_DTYPE_CASE(kF32, float)
    DL_DTYPE_CASE(kF64, double)
    DL_DTYPE_CASE(kI8, std::int8_t)
    DL_DTYPE_CASE(kU8, std::uint8_t)
    DL_DTYPE_CASE(kI16, std::int16_t)
    DL_DTYPE_CASE(kU16, std::uint16_t)
    DL_DTYPE_CASE(kI32, std::int32_t)
    DL_DTYPE_CASE(kU32, std::uint32_t)
    DL_DTYPE_CASE(kI64, std::int64_t)
    DL_DTYPE_CASE(kU64, std::uint64_t)
    default:
      refuse_dtype(op, dtype, "a number");
  }
}
#undef DL_DTYPE_CASE

namespace detail {

// The integer part of `value`, or the lowest number of I if it is out of range: the result of x86's
// conversions, on every machine.
template <typename I, typename F>
I truncated(F value) {
  constexpr F kEnd = F(2) * static_cast<F>(std::uint64_t{1} << (8 * sizeof(I) - 2));
  // A double below -2^31 may still have the whole part -2^31.
  const bool fits =
      value < kEnd && (value >= -kEnd || (sizeof(F) > sizeof(I) && value > -kEnd - F(1)));
  return fits ? static_cast<I>(value) : std::numeric_limits<I>::min();
}

// Conversion between element types of tensors: through float for half types; every number except 0
// is true. A floating number is converted to int32 first for int8, int16, uint16 and int32, and to
// int64 for the other integers; the low bits are kept. This is PyTorch's result on x86
// (docs/guides/tensors.md).
template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<OpMath<From>>(value) != OpMath<From>(0);
  } else if constexpr (kIsReduced<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (kIsReduced<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr bool kByInt32 =
        sizeof(To) <= 4 && !std::is_same_v<To, std::uint8_t> && !std::is_same_v<To, std::uint32_t>;
    using Wide = std::conditional_t<kByInt32, std::int32_t, std::int64_t>;
    if constexpr (std::is_same_v<To, std::uint64_t>) {
      if (value >= From(18446744073709551616.0)) return 0;
      if (value >= From(9223372036854775808.0)) return static_cast<To>(value);
    }
    return static_cast<To>(truncated<Wide>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace detail

}  // namespace dl
