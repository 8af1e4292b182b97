// What one element of each element-wise operation is. Written once: the CPU's loops and CUDA's
// kernels both apply these. Half types come in as float.
#pragma once

#include <cmath>
#include <concepts>
#include <type_traits>

#include "core/tensor/half.h"

namespace dl::kernels {

namespace detail {
// Integers wrap around, as on every device; signed overflow would be undefined.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                        (sizeof(T) >= sizeof(int)),
                                    std::make_unsigned<T>, std::type_identity<T>>::type;
}  // namespace detail

struct Add {
  template <typename T>
  DL_HOST_DEVICE T operator()(T a, T b) const {
    using W = detail::Wrapping<T>;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};

struct Sub {
  template <typename T>
  DL_HOST_DEVICE T operator()(T a, T b) const {
    using W = detail::Wrapping<T>;
    return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
  }
};

struct Mul {
  template <typename T>
  DL_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (sizeof(T) == 2 && std::is_integral_v<T>) {
      return static_cast<T>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
    } else {
      using W = detail::Wrapping<T>;
      return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
    }
  }
};

// a + alpha b: the sum with a factor, which PyTorch calls alpha.
template <typename T>
struct AddScaled {
  DL_HOST_DEVICE T operator()(T a, T b) const { return Add()(a, Mul()(alpha, b)); }
  T alpha;
};

struct Div {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T a, T b) const {
    return a / b;
  }
};

// NaN wins, as in PyTorch.
struct Minimum {
  template <typename T>
  DL_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a != a ? a : (b != b ? b : (b < a ? b : a));
    } else {
      return b < a ? b : a;
    }
  }
};

struct Maximum {
  template <typename T>
  DL_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a != a ? a : (b != b ? b : (a < b ? b : a));
    } else {
      return a < b ? b : a;
    }
  }
};

struct Equal {
  template <typename T>
  DL_HOST_DEVICE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <typename T>
  DL_HOST_DEVICE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <typename T>
  DL_HOST_DEVICE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  DL_HOST_DEVICE bool operator()(T a, T b) const {
    return a <= b;
  }
};

struct Neg {
  template <typename T>
  DL_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return -x;
    } else {
      return Sub()(T(0), x);
    }
  }
};
struct Exp {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return std::exp(x);
  }
};
struct Log {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return std::log(x);
  }
};
struct Sqrt {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct Tanh {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return std::tanh(x);
  }
};
struct Sigmoid {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
};
// x Phi(x), Phi being the normal distribution's (Hendrycks and Gimpel 2016).
struct Gelu {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return T(0.5) * x * (T(1) + std::erf(x * T(0.7071067811865475244)));  // 1 / sqrt(2)
  }
};

namespace detail {
// Of GELU's tanh form: sqrt(2 / pi) (x + 0.044715 x^3), and its derivative.
template <typename T>
DL_HOST_DEVICE T gelu_inner(T x) {
  return T(0.7978845608028653559) * (x + T(0.044715) * x * x * x);
}
template <typename T>
DL_HOST_DEVICE T gelu_inner_slope(T x) {
  return T(0.7978845608028653559) * (T(1) + T(3 * 0.044715) * x * x);
}
}  // namespace detail

struct GeluTanh {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T x) const {
    return T(0.5) * x * (T(1) + std::tanh(detail::gelu_inner(x)));
  }
};
// NaN stays NaN.
struct Relu {
  template <typename T>
  DL_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else {
      return x < T(0) ? T(0) : x;
    }
  }
};

// Gradients from the gradient g of the output y.
struct ReluBackward {
  template <typename T>
  DL_HOST_DEVICE T operator()(T g, T y) const {
    return y <= T(0) ? T(0) : g;
  }
};
struct TanhBackward {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T g, T y) const {
    return g * (T(1) - y * y);
  }
};
struct SigmoidBackward {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T g, T y) const {
    return g * (T(1) - y) * y;
  }
};
// From the gradient g of the output, and the input x.
struct GeluBackward {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T g, T x) const {
    const T cdf = T(0.5) * (T(1) + std::erf(x * T(0.7071067811865475244)));
    const T density = T(0.3989422804014326779) * std::exp(T(-0.5) * x * x);  // 1 / sqrt(2 pi)
    return g * (cdf + x * density);
  }
};
struct GeluTanhBackward {
  template <std::floating_point T>
  DL_HOST_DEVICE T operator()(T g, T x) const {
    const T t = std::tanh(detail::gelu_inner(x));
    const T slope = (T(1) - t * t) * detail::gelu_inner_slope(x);
    return g * T(0.5) * (T(1) + t + x * slope);
  }
};

}  // namespace dl::kernels
