// Elements as no kernel of the library computes them: one at a time, integers in 128 bits, floating
// numbers in the type that the dtype's arithmetic is defined in (float32 for the 16-bit types).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl::testing::naive {

__extension__ using Wide = __int128;

struct Number {
  bool is_floating = false;
  double real = 0;
  Wide whole = 0;
};

inline Number real(double value) {
  return {.is_floating = true, .real = value};
}
inline Number whole(Wide value) {
  return {.whole = value};
}

// What a tensor of `dtype` holds after `x` was written into it. Integers wrap around.
inline Number converted(const Number& x, DType dtype) {
  if (dtype == DType::kBool) return whole(x.is_floating ? x.real != 0 : x.whole != 0);
  if (is_floating(dtype)) {
    if (dtype == DType::kF64) return real(x.is_floating ? x.real : static_cast<double>(x.whole));
    const float single = x.is_floating ? static_cast<float>(x.real) : static_cast<float>(x.whole);
    if (dtype == DType::kF16) return real(static_cast<double>(float{Half(single)}));
    if (dtype == DType::kBF16) return real(static_cast<double>(float{BFloat16(single)}));
    return real(static_cast<double>(single));
  }
  const Wide value = x.is_floating ? static_cast<Wide>(x.real) : x.whole;
  const auto bits = static_cast<int>(8 * size_of(dtype));
  const Wide range = Wide{1} << bits;
  Wide low = value & (range - 1);
  const bool is_signed =
      dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  if (is_signed && low >= range / 2) low -= range;
  return whole(low);
}

// All elements in row-major order, from whatever device.
inline std::vector<Number> elements(const Tensor& tensor) {
  const Tensor here = tensor.cpu().contiguous();
  std::vector<Number> result;
  result.reserve(static_cast<std::size_t>(here.numel()));
  visit_all(here.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < here.numel(); ++i) {
      const T value = here.data<T>()[i];
      if constexpr (std::is_integral_v<T>) {
        result.push_back(whole(value));
      } else {
        result.push_back(real(static_cast<double>(static_cast<OpMath<T>>(value))));
      }
    }
  });
  return result;
}

inline bool same(const Number& a, const Number& b) {
  if (a.is_floating != b.is_floating) return false;
  if (!a.is_floating) return a.whole == b.whole;
  return a.real == b.real || (std::isnan(a.real) && std::isnan(b.real));
}

inline std::string text(const Number& x) {
  return x.is_floating ? std::to_string(x.real) : std::to_string(static_cast<double>(x.whole));
}

enum class Binary : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMinimum,
  kMaximum,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe
};

template <typename T>
Number compare(Binary op, T a, T b) {
  switch (op) {
    case Binary::kEq:
      return whole(a == b);
    case Binary::kNe:
      return whole(a != b);
    case Binary::kLt:
      return whole(a < b);
    case Binary::kLe:
      return whole(a <= b);
    case Binary::kGt:
      return whole(a > b);
    case Binary::kGe:
      return whole(a >= b);
    default:
      return {};
  }
}

template <typename T>
Number apply_floating(Binary op, T a, T b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (op) {
    case Binary::kAdd:
      return real(static_cast<double>(a + b));
    case Binary::kSub:
      return real(static_cast<double>(a - b));
    case Binary::kMul:
      return real(static_cast<double>(a * b));
    case Binary::kDiv:
      return real(static_cast<double>(a / b));
    case Binary::kMinimum:
      return real(unordered ? NAN : static_cast<double>(std::fmin(a, b)));
    case Binary::kMaximum:
      return real(unordered ? NAN : static_cast<double>(std::fmax(a, b)));
    default:
      return compare(op, a, b);
  }
}

inline Number apply_whole(Binary op, Wide a, Wide b) {
  switch (op) {
    case Binary::kAdd:
      return whole(a + b);
    case Binary::kSub:
      return whole(a - b);
    case Binary::kMul:
      return whole(a * b);
    case Binary::kDiv:
      break;  // of integers: in float32
    case Binary::kMinimum:
      return whole(a < b ? a : b);
    case Binary::kMaximum:
      return whole(a < b ? b : a);
    default:
      return compare(op, a, b);
  }
  return {};
}

// Of operands that have `dtype` already; the result is rounded, or wrapped, to it (a comparison's
// is a bool).
inline Number apply(Binary op, const Number& a, const Number& b, DType dtype) {
  Number result;
  if (dtype == DType::kF64) {
    result = apply_floating<double>(op, a.real, b.real);
  } else if (is_floating(dtype)) {
    result = apply_floating<float>(op, static_cast<float>(a.real), static_cast<float>(b.real));
  } else {
    result = apply_whole(op, a.whole, b.whole);
  }
  return op >= Binary::kEq ? result : converted(result, dtype);
}

}  // namespace dl::testing::naive
