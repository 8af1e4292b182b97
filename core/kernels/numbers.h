// The arithmetic that formulas (formulas-inl.h) are written in, for float and double, and for
// integers as Whole<T>. cpu/elementwise/lanes-inl.h has the same for vectors of float.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "core/tensor/half.h"

// What stands before a formula that loops of scalars and device code call.
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

// The number that formulas see for an element of type T, and back.
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
#undef DL_FUNCTION_OF

template <std::floating_point N>
DL_HOST_DEVICE N pow_of(N x, N exponent) {
  return std::pow(x, exponent);
}

// Halves go to the even number, unless a program has changed the rounding mode.
template <std::floating_point N>
DL_HOST_DEVICE N round_of(N x) {
  return std::nearbyint(x);
}

// Integers are whole.
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
template <typename T>
DL_HOST_DEVICE Whole<T> abs_of(Whole<T> x) {
  return select(x < Whole<T>(T(0)), -x, x);
}

}  // namespace dl::kernels
