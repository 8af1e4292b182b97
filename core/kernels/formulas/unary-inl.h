// Functions of one element, except the activation functions. Included by formulas-inl.h, which
// says how a formula is written.

namespace DL_FORMULAS_NAMESPACE {

// -x
struct Neg {
  template <typename N>
  static DL_INLINE N value(N x) {
    return -x;
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N) {
    return -g;
  }
};

// The hyperbolic tangent.
struct Tanh {
  template <typename N>
  static DL_INLINE N value(N x) {
    return tanh_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return N(1) - y * y;
  }
};

// e^x
struct Exp {
  template <typename N>
  static DL_INLINE N value(N x) {
    return exp_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return y;
  }
};

// The natural logarithm.
struct Log {
  template <typename N>
  static DL_INLINE N value(N x) {
    return log_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / x;
  }
};

// The square root.
struct Sqrt {
  template <typename N>
  static DL_INLINE N value(N x) {
    return sqrt_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N y) {
    return g / (N(2) * y);
  }
};

// x x
struct Square {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x * x;
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return N(2) * x;
  }
};

// 1 / sqrt(x)
struct Rsqrt {
  template <typename N>
  static DL_INLINE N value(N x) {
    return N(1) / sqrt_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return N(-0.5) * (y * y * y);
  }
};

// 1 / x
struct Reciprocal {
  template <typename N>
  static DL_INLINE N value(N x) {
    return N(1) / x;
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return -(y * y);
  }
};

// e^x - 1
struct Expm1 {
  template <typename N>
  static DL_INLINE N value(N x) {
    return expm1_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return y + N(1);
  }
};

// log(1 + x)
struct Log1p {
  template <typename N>
  static DL_INLINE N value(N x) {
    return log1p_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / (x + N(1));
  }
};

// The logarithm of base 2.
struct Log2 {
  template <typename N>
  static DL_INLINE N value(N x) {
    return log2_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / (x * N(0.6931471805599453094));  // log(2)
  }
};

// The logarithm of base 10.
struct Log10 {
  template <typename N>
  static DL_INLINE N value(N x) {
    return log10_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / (x * N(2.3025850929940456840));  // log(10)
  }
};

// The sine.
struct Sin {
  template <typename N>
  static DL_INLINE N value(N x) {
    return sin_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return cos_of(x);
  }
};

// The cosine.
struct Cos {
  template <typename N>
  static DL_INLINE N value(N x) {
    return cos_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return -sin_of(x);
  }
};

// The error function.
struct Erf {
  template <typename N>
  static DL_INLINE N value(N x) {
    return erf_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return N(1.1283791670955125739) * exp_of(-(x * x));  // 2 / sqrt(pi)
  }
};

// log |gamma(x)|
struct Lgamma {
  template <typename N>
  static DL_INLINE N value(N x) {
    return lgamma_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return digamma_of(x);
  }
};

// The slope of lgamma.
struct Digamma {
  template <typename N>
  static DL_INLINE N value(N x) {
    return digamma_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return trigamma_of(x);
  }
};

// -1, 0 or 1; 0 for NaN.
struct Sign {
  template <typename N>
  static DL_INLINE N value(N x) {
    return select(x < N(0), N(-1), select(N(0) < x, N(1), N(0)));
  }
  template <typename N>
  static DL_INLINE N gradient(N, N) {
    return N(0);
  }
};

// The magnitude. The gradient at 0 is 0.
struct Abs {
  template <typename N>
  static DL_INLINE N value(N x) {
    return abs_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g * Sign::value(x);
  }
};

// The largest integer <= x.
struct Floor {
  template <typename N>
  static DL_INLINE N value(N x) {
    return floor_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N, N) {
    return N(0);
  }
};

// The smallest integer >= x.
struct Ceil {
  template <typename N>
  static DL_INLINE N value(N x) {
    return ceil_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N, N) {
    return N(0);
  }
};

// The nearest integer; halves round to even.
struct Round {
  template <typename N>
  static DL_INLINE N value(N x) {
    return round_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N, N) {
    return N(0);
  }
};

// The integer part.
struct Trunc {
  template <typename N>
  static DL_INLINE N value(N x) {
    return trunc_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N, N) {
    return N(0);
  }
};

// x minus its integer part.
struct Frac {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x - trunc_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N) {
    return g;
  }
};

// 1 - erf(x)
struct Erfc {
  template <typename N>
  static DL_INLINE N value(N x) {
    return erfc_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return -Erf::slope(x);
  }
};

// 2^x
struct Exp2 {
  template <typename N>
  static DL_INLINE N value(N x) {
    return exp2_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return y * N(0.6931471805599453094);  // log(2)
  }
};

// The tangent.
struct Tan {
  template <typename N>
  static DL_INLINE N value(N x) {
    return tan_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N y) {
    return y * y + N(1);
  }
};

// The inverse functions of sine, cosine and tangent.
struct Asin {
  template <typename N>
  static DL_INLINE N value(N x) {
    return asin_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / sqrt_of(N(1) - x * x);
  }
};
struct Acos {
  template <typename N>
  static DL_INLINE N value(N x) {
    return acos_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return -(g / sqrt_of(N(1) - x * x));
  }
};
struct Atan {
  template <typename N>
  static DL_INLINE N value(N x) {
    return atan_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / (x * x + N(1));
  }
};

// (e^x - e^-x) / 2 and (e^x + e^-x) / 2
struct Sinh {
  template <typename N>
  static DL_INLINE N value(N x) {
    return sinh_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return cosh_of(x);
  }
};
struct Cosh {
  template <typename N>
  static DL_INLINE N value(N x) {
    return cosh_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return sinh_of(x);
  }
};

// The inverse functions of the hyperbolic ones.
struct Asinh {
  template <typename N>
  static DL_INLINE N value(N x) {
    return asinh_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / sqrt_of(x * x + N(1));
  }
};
struct Acosh {
  template <typename N>
  static DL_INLINE N value(N x) {
    return acosh_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / sqrt_of(x * x - N(1));
  }
};
struct Atanh {
  template <typename N>
  static DL_INLINE N value(N x) {
    return atanh_of(x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g / (N(1) - x * x);
  }
};

// min(max(x, low), high); NaN if one of them is NaN. The gradient is that of x if x is the result.
struct Between {
  template <typename N>
  static DL_INLINE N value(N x, N low, N high) {
    const N at_least = select(x != x, x, select(low <= x, x, low));
    return select(at_least != at_least, at_least, select(at_least <= high, at_least, high));
  }
};

// Degrees as radians, and the reverse.
struct Deg2rad {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x * N(0.0174532925199432957692);  // pi / 180
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N) {
    return g * N(0.0174532925199432957692);
  }
};
struct Rad2deg {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x * N(57.2957795130823208768);  // 180 / pi
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N) {
    return g * N(57.2957795130823208768);
  }
};

// Between, for scalar bounds. The gradient at a bound is 0, as in PyTorch; a missing bound is
// infinite, and an infinite x does not count as being at it.
struct Clamp {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return Between::value(x, p.a, p.b);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    const N left_out(std::numeric_limits<double>::infinity());
    const N above = select(p.a < x, g, select(p.a == -left_out, g, N(0)));
    return select(x < p.b, above, select(p.b == left_out, above, N(0)));
  }
};

// x^a
struct Pow {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return pow_of(x, p.a);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(p.a == N(0), N(0), g * (p.a * pow_of(x, p.a - N(1))));
  }
};

}  // namespace DL_FORMULAS_NAMESPACE
