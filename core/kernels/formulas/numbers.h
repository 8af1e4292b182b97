// The functions that formulas (formulas-inl.h) use, for float, double and integers (Whole<T>).
// cpu/elementwise/vector/lanes-inl.h has them for vectors of float.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/tensor/half.h"

// The qualifiers of a formula that scalar loops and device code call.
#if defined(__CUDACC__)
#define DL_NUMBER_INLINE __forceinline__ __host__ __device__
#else
#define DL_NUMBER_INLINE inline
#endif

namespace dl::kernels {

// An integer that wraps around, as on every device; signed overflow would be undefined.
template <std::integral T>
struct Whole {
  Whole() = default;
  DL_HOST_DEVICE explicit Whole(T x) : v(x) {}
  DL_HOST_DEVICE explicit Whole(double x)
    requires(!std::same_as<T, double>)
      : v(static_cast<T>(x)) {}
  DL_HOST_DEVICE explicit Whole(int x)
    requires(!std::same_as<T, int>)
      : v(static_cast<T>(x)) {}
  T v;

  using Bits = std::make_unsigned_t<T>;
  friend DL_HOST_DEVICE Whole operator+(Whole a, Whole b) { return of(bits(a) + bits(b)); }
  friend DL_HOST_DEVICE Whole operator-(Whole a, Whole b) { return of(bits(a) - bits(b)); }
  friend DL_HOST_DEVICE Whole operator*(Whole a, Whole b) { return of(bits(a) * bits(b)); }
  friend DL_HOST_DEVICE Whole operator-(Whole a) { return of(Bits{0} - bits(a)); }
  friend DL_HOST_DEVICE Whole operator&(Whole a, Whole b) { return of(bits(a) & bits(b)); }
  friend DL_HOST_DEVICE Whole operator|(Whole a, Whole b) { return of(bits(a) | bits(b)); }
  friend DL_HOST_DEVICE Whole operator^(Whole a, Whole b) { return of(bits(a) ^ bits(b)); }
  friend DL_HOST_DEVICE bool operator<(Whole a, Whole b) { return a.v < b.v; }
  friend DL_HOST_DEVICE bool operator<=(Whole a, Whole b) { return a.v <= b.v; }
  friend DL_HOST_DEVICE bool operator==(Whole a, Whole b) { return a.v == b.v; }
  friend DL_HOST_DEVICE bool operator!=(Whole a, Whole b) { return a.v != b.v; }

 private:
  static DL_HOST_DEVICE Bits bits(Whole a) { return static_cast<Bits>(a.v); }
  static DL_HOST_DEVICE Whole of(Bits bits) { return Whole(static_cast<T>(bits)); }
};

template <typename N>
inline constexpr bool kIsWhole = false;
template <typename T>
inline constexpr bool kIsWhole<Whole<T>> = true;

// Conversion between an element of type T and its number type in formulas.
template <typename T>
using NumberOf = typename std::conditional_t<
    std::is_integral_v<T>,
    std::type_identity<Whole<std::conditional_t<std::is_integral_v<T>, T, int>>>,
    std::type_identity<T>>::type;
template <typename T>
DL_HOST_DEVICE T element_of(T x) {
  return x;
}
template <typename T>
DL_HOST_DEVICE T element_of(Whole<T> x) {
  return x.v;
}

template <typename N>
DL_HOST_DEVICE N select(bool condition, N yes, N no) {
  return condition ? yes : no;
}

// Returns b if either is NaN, and for two zeros.
template <typename N>
DL_HOST_DEVICE N larger_of(N a, N b) {
  return b < a ? a : b;
}
template <typename N>
DL_HOST_DEVICE N smaller_of(N a, N b) {
  return a < b ? a : b;
}

// a b + c; vectors round it once.
template <std::floating_point N>
DL_HOST_DEVICE N mul_add(N a, N b, N c) {
  return a * b + c;
}

#define DL_FUNCTION_OF(name)        \
  template <std::floating_point N>  \
  DL_HOST_DEVICE N name##_of(N x) { \
    return std::name(x);            \
  }
DL_FUNCTION_OF(exp)
DL_FUNCTION_OF(expm1)
DL_FUNCTION_OF(log)
DL_FUNCTION_OF(log1p)
DL_FUNCTION_OF(sqrt)
DL_FUNCTION_OF(tanh)
DL_FUNCTION_OF(erf)
DL_FUNCTION_OF(log2)
DL_FUNCTION_OF(log10)
DL_FUNCTION_OF(sin)
DL_FUNCTION_OF(cos)
DL_FUNCTION_OF(abs)
DL_FUNCTION_OF(floor)
DL_FUNCTION_OF(ceil)
DL_FUNCTION_OF(trunc)
DL_FUNCTION_OF(erfc)
DL_FUNCTION_OF(exp2)
DL_FUNCTION_OF(tan)
DL_FUNCTION_OF(asin)
DL_FUNCTION_OF(acos)
DL_FUNCTION_OF(atan)
DL_FUNCTION_OF(sinh)
DL_FUNCTION_OF(cosh)
DL_FUNCTION_OF(asinh)
DL_FUNCTION_OF(acosh)
DL_FUNCTION_OF(atanh)
#undef DL_FUNCTION_OF

// The normal distribution's cdf.
template <std::floating_point N>
DL_HOST_DEVICE N normal_cdf_of(N x) {
  return N(0.5) * (N(1) + std::erf(x * N(0.7071067811865475244)));  // 1 / sqrt(2)
}

template <std::floating_point N>
DL_HOST_DEVICE N pow_of(N x, N exponent) {
  return std::pow(x, exponent);
}

template <std::floating_point N>
DL_HOST_DEVICE N lgamma_of(N x) {
#if defined(__CUDA_ARCH__)
  return std::lgamma(x);
#else
  int sign = 0;  // std::lgamma() writes it to a variable that all threads share
  if constexpr (sizeof(N) == sizeof(float)) {
    return ::lgammaf_r(x, &sign);
  } else {
    return ::lgamma_r(x, &sign);
  }
#endif
}

// The slope of lgamma: NaN for negative integers, an infinity with the other sign for a zero.
// Computed in float64, by its recurrence up to 10 and then by its asymptotic series (Abramowitz and
// Stegun 1964, 6.3.5 and 6.3.18).
template <std::floating_point N>
DL_HOST_DEVICE N digamma_of(N x) {
  constexpr double kPi = 3.14159265358979323846;
  double at = static_cast<double>(x);
  if (at == 0) return std::copysign(std::numeric_limits<N>::infinity(), -x);
  double sum = 0;
  if (at < 0) {
    const double whole = std::trunc(at);
    if (at == whole) return std::numeric_limits<N>::quiet_NaN();
    sum = -kPi / std::tan(kPi * (at - whole));
    at = 1 - at;
  }
  for (; at < 10; at += 1) sum -= 1 / at;
  const double y = 1 / (at * at);
  const double series =
      y * (1.0 / 12 -
           y * (1.0 / 120 -
                y * (1.0 / 252 -
                     y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y * (1.0 / 12)))))));
  return static_cast<N>(sum + std::log(at) - 0.5 / at - series);
}

// The slope of digamma, computed in float64 with the steps and terms that PyTorch takes (Abramowitz
// and Stegun 1964, 6.4.6, 6.4.7 and 6.4.12): both have its error of up to 2e-9.
template <std::floating_point N>
DL_HOST_DEVICE N trigamma_of(N x) {
  constexpr double kPi = 3.14159265358979323846;
  double at = static_cast<double>(x);
  double sum = 0;
  double sign = 1;
  if (at < 0.5) {
    const double sine = std::sin(kPi * at);
    sum = -(kPi * kPi) / (sine * sine);
    sign = -1;
    at = 1 - at;
  }
  for (int i = 0; i < 6; ++i, at += 1) sum += 1 / (at * at);
  const double y = 1 / (at * at);
  sum += (1 + 1 / (2 * at) + y * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42)))) / at;
  return static_cast<N>(sign * sum);
}

template <std::floating_point N>
DL_HOST_DEVICE N fmod_of(N a, N b) {
  return std::fmod(a, b);
}
template <std::floating_point N>
DL_HOST_DEVICE N copysign_of(N a, N b) {
  return std::copysign(a, b);
}

// a / b, rounded down. Subtracts the remainder first, so that the quotient is nearly an integer and
// rounding it down is safe (as in Python's divmod).
template <std::floating_point N>
DL_HOST_DEVICE N floor_quotient_of(N a, N b) {
  if (b == N(0)) return a / b;
  const N left = std::fmod(a, b);
  N quotient = (a - left) / b;
  if (left != N(0) && (b < N(0)) != (left < N(0))) quotient -= N(1);
  if (quotient == N(0)) return std::copysign(N(0), a / b);
  const N below = std::floor(quotient);
  return quotient - below > N(0.5) ? below + N(1) : below;
}

// Rounds halves to even, unless the program has changed the rounding mode.
template <std::floating_point N>
DL_HOST_DEVICE N round_of(N x) {
  return std::nearbyint(x);
}

// Rounding does not change integers.
#define DL_WHOLE_OF(name)                    \
  template <typename T>                      \
  DL_HOST_DEVICE Whole<T> name(Whole<T> x) { \
    return x;                                \
  }
DL_WHOLE_OF(floor_of)
DL_WHOLE_OF(ceil_of)
DL_WHOLE_OF(round_of)
DL_WHOLE_OF(trunc_of)
#undef DL_WHOLE_OF

// The remainder of a / b, with the sign of a. Op functions refuse b = 0, which gives 0 here.
template <typename T>
DL_HOST_DEVICE Whole<T> fmod_of(Whole<T> a, Whole<T> b) {
  if (b.v == T(0)) return b;
  if constexpr (std::is_signed_v<T>) {
    if (b.v == T(-1)) return Whole<T>(T(0));  // min() / -1 overflows T
  }
  return Whole<T>(static_cast<T>(a.v % b.v));
}
template <typename T>
DL_HOST_DEVICE Whole<T> floor_quotient_of(Whole<T> a, Whole<T> b) {
  if (b.v == T(0)) return b;
  if constexpr (std::is_signed_v<T>) {
    if (b.v == T(-1)) return -a;
    const T left = static_cast<T>(a.v % b.v);
    const T quotient = static_cast<T>(a.v / b.v);
    return Whole<T>(left != 0 && (left < 0) != (b.v < 0) ? static_cast<T>(quotient - 1) : quotient);
  } else {
    return Whole<T>(static_cast<T>(a.v / b.v));
  }
}
// A shift by a negative number, or by all bits, gives 0; a right shift of a signed integer gives 0
// or -1.
template <typename T>
DL_HOST_DEVICE Whole<T> shift_up_of(Whole<T> a, Whole<T> b) {
  using Bits = std::make_unsigned_t<T>;
  const Bits places = static_cast<Bits>(b.v);
  if (places >= 8 * sizeof(T)) return Whole<T>(T(0));
  return Whole<T>(static_cast<T>(static_cast<Bits>(a.v) << places));
}
template <typename T>
DL_HOST_DEVICE Whole<T> shift_down_of(Whole<T> a, Whole<T> b) {
  const auto places = static_cast<std::make_unsigned_t<T>>(b.v);
  if (places < 8 * sizeof(T)) return Whole<T>(static_cast<T>(a.v >> places));
  if constexpr (std::is_signed_v<T>) return Whole<T>(static_cast<T>(a.v < 0 ? -1 : 0));
  return Whole<T>(T(0));
}
// Exponentiation by squaring. A negative exponent gives the integer part of the result: 0, 1 or -1.
template <typename T>
DL_HOST_DEVICE Whole<T> pow_of(Whole<T> base, Whole<T> exponent) {
  T left = exponent.v;
  if constexpr (std::is_signed_v<T>) {
    if (left < 0) {
      if (base.v == T(1)) return base;
      if (base.v == T(-1)) return left % 2 == 0 ? Whole<T>(T(1)) : base;
      return Whole<T>(T(0));
    }
  }
  Whole<T> result(T(1));
  for (; left != 0; left = static_cast<T>(left / 2)) {
    if (left % 2 != 0) result = result * base;
    base = base * base;
  }
  return result;
}
template <typename T>
DL_HOST_DEVICE Whole<T> abs_of(Whole<T> x) {
  return select(x < Whole<T>(T(0)), -x, x);
}

}  // namespace dl::kernels
