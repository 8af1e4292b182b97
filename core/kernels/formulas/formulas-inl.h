// What one element of each element-wise operation is. Written once, for every number type N: float,
// double and Whole<T> (numbers.h) in loops of scalars and on CUDA, and vectors of float on the CPU
// (cpu/elementwise/lanes-inl.h). float16 and bfloat16 are computed as float.
//
// Included once for each instruction set, so it has no guard: the includer defines DL_INLINE, which
// stands before each function, and DL_FORMULAS_NAMESPACE, where `select`, `exp_of` and the like are
// found for its number types. No branches: a vector has no single answer to a comparison.
//
// A formula of one element has value(x), and slope(s): the derivative as a function of what the row
// saves, the input x or the output y. A formula whose gradient is not gradient times slope, because
// of its rounding or of infinite gradients, has gradient(g, s) in its place. A formula with
// parameters takes them last, as Given<N>.

namespace DL_FORMULAS_NAMESPACE {

template <typename N>
struct Given {
  N a;
  N b;
};

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

// max(x, 0); NaN stays NaN. The gradient at 0 is 0.
struct Relu {
  template <typename N>
  static DL_INLINE N value(N x) {
    return select(x < N(0), N(0), x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N y) {
    return select(y <= N(0), N(0), g);
  }
};

// 1 / (1 + e^-x)
struct Sigmoid {
  template <typename N>
  static DL_INLINE N value(N x) {
    return N(1) / (N(1) + exp_of(-x));
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N y) {
    return g * (N(1) - y) * y;
  }
};

// x / (1 + e^-x)
struct Silu {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x / (N(1) + exp_of(-x));
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    const N s = N(1) / (N(1) + exp_of(-x));
    return s * (N(1) + x * (N(1) - s));
  }
};

// x tanh(log(1 + e^x)) (Misra 2019).
struct Mish {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x * tanh_of(log1p_of(exp_of(x)));
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    const N t = tanh_of(log1p_of(exp_of(x)));
    const N sigmoid = N(1) / (N(1) + exp_of(-x));
    return t + x * sigmoid * (N(1) - t * t);
  }
};

// log(1 / (1 + e^-x)), without overflow.
struct LogSigmoid {
  template <typename N>
  static DL_INLINE N value(N x) {
    return select(x < N(0), x, N(0)) - log1p_of(exp_of(-abs_of(x)));
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    return N(1) / (N(1) + exp_of(x));
  }
};

// x / (1 + |x|)
struct Softsign {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x / (N(1) + abs_of(x));
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    const N d = N(1) + abs_of(x);
    return N(1) / (d * d);
  }
};

// min(max(x, 0), 6); NaN stays NaN. The gradient at 0 and at 6 is 0.
struct Relu6 {
  template <typename N>
  static DL_INLINE N value(N x) {
    return select(x < N(0), N(0), select(N(6) < x, N(6), x));
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return select(x <= N(0), N(0), select(N(6) <= x, N(0), g));
  }
};

// min(max(x + 3, 0), 6) / 6
struct Hardsigmoid {
  template <typename N>
  static DL_INLINE N value(N x) {
    return Relu6::value(x + N(3)) / N(6);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return select(N(-3) < x, select(x < N(3), g / N(6), N(0)), N(0));
  }
};

// x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019).
struct Hardswish {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x * Relu6::value(x + N(3)) / N(6);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return select(x <= N(-3), N(0), select(x < N(3), g * (x / N(3) + N(0.5)), g));
  }
};

// x, or a x below 0.
struct LeakyRelu {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(N(0) < x, x, x * p.a);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(N(0) < x, g, g * p.a);
  }
};

// x, or a (e^x - 1) below 0.
struct Elu {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(x <= N(0), p.a * expm1_of(x), x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(x <= N(0), g * p.a * exp_of(x), g);
  }
};

// log(1 + e^(a x)) / a, or x where a x is more than b.
struct Softplus {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    const N z = x * p.a;
    return select(p.b < z, x, log1p_of(exp_of(z)) / p.a);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    const N z = exp_of(x * p.a);
    return select(p.b < x * p.a, g, g * z / (z + N(1)));
  }
};

// Elu with numbers that keep mean and variance of a layer's outputs (Klambauer et al. 2017).
struct Selu {
  template <typename N>
  static DL_INLINE N value(N x) {
    return N(1.0507009873554804934) * select(x <= N(0), N(1.6732632423543772848) * expm1_of(x), x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x) {
    return g * N(1.0507009873554804934) *
           select(x <= N(0), N(1.6732632423543772848) * exp_of(x), N(1));
  }
};

// x, or a (e^(x / a) - 1) below 0.
struct Celu {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(x <= N(0), p.a * expm1_of(x / p.a), x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(x <= N(0), g * exp_of(x / p.a), g);
  }
};

// x - tanh(x)
struct Tanhshrink {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x - tanh_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    const N t = tanh_of(x);
    return t * t;
  }
};

// x, nearer to 0 by a; NaN stays NaN. The gradient is that of 0 where |x| <= a.
struct Softshrink {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(p.a < x, x - p.a, select(x < -p.a, x + p.a, x * N(0)));
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(x <= p.a, select(-p.a <= x, N(0), g), g);
  }
};

// x, or 0 where -a <= x <= a.
struct Hardshrink {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(x <= p.a, select(-p.a <= x, N(0), x), x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(x <= p.a, select(-p.a <= x, N(0), g), g);
  }
};

// x, or b where x <= a.
struct Threshold {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(x <= p.a, p.b, x);
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(x <= p.a, N(0), g);
  }
};

// min(max(x, a), b); NaN stays NaN.
struct Hardtanh {
  template <typename N>
  static DL_INLINE N value(N x, const Given<N>& p) {
    return select(x < p.a, p.a, select(p.b < x, p.b, x));
  }
  template <typename N>
  static DL_INLINE N gradient(N g, N x, const Given<N>& p) {
    return select(x <= p.a, N(0), select(p.b <= x, N(0), g));
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

// x Phi(x), Phi being the normal distribution's (Hendrycks and Gimpel 2016).
struct Gelu {
  template <typename N>
  static DL_INLINE N value(N x) {
    return x * normal_cdf_of(x);
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    const N density = N(0.3989422804014326779) * exp_of(N(-0.5) * x * x);  // 1 / sqrt(2 pi)
    return normal_cdf_of(x) + x * density;
  }
};

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), PyTorch's approximate = "tanh".
struct GeluTanh {
  template <typename N>
  static DL_INLINE N inner(N x) {
    return N(0.7978845608028653559) * (x + N(0.044715) * x * x * x);
  }
  template <typename N>
  static DL_INLINE N value(N x) {
    return N(0.5) * x * (N(1) + tanh_of(inner(x)));
  }
  template <typename N>
  static DL_INLINE N slope(N x) {
    const N t = tanh_of(inner(x));
    const N inner_slope = N(0.7978845608028653559) * (N(1) + N(3 * 0.044715) * x * x);
    return N(0.5) * (N(1) + t + x * ((N(1) - t * t) * inner_slope));
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

// -1, 0 or 1; 0 of NaN.
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

// The next whole number below.
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

// The next whole number above.
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

// The nearest whole number; halves go to the even one.
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

// The whole part.
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

// x without its whole part.
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

// min(max(x, low), high); a NaN among them wins. The gradient is that of x where x is the result.
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

// Between, for numbers. The gradient at a bound is 0, as in PyTorch; a bound that is left out is
// infinite, and an infinite x does not lie at it.
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

// Functions of two elements.

struct Add {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a + b;
  }
};

// a + alpha b
struct AddScaled {
  template <typename N>
  static DL_INLINE N value(N a, N b, const Given<N>& alpha) {
    return a + alpha.a * b;
  }
};

struct Sub {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a - b;
  }
};

struct Mul {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a * b;
  }
};

struct Div {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a / b;
  }
};

// NaN wins, as in PyTorch.
struct Minimum {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return select(a != a, a, select(b != b, b, select(b < a, b, a)));
  }
};
struct Maximum {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return select(a != a, a, select(b != b, b, select(a < b, b, a)));
  }
};

struct Equal {
  template <typename N>
  static DL_INLINE auto value(N a, N b) {
    return a == b;
  }
};
struct NotEqual {
  template <typename N>
  static DL_INLINE auto value(N a, N b) {
    return a != b;
  }
};
struct Less {
  template <typename N>
  static DL_INLINE auto value(N a, N b) {
    return a < b;
  }
};
struct LessEqual {
  template <typename N>
  static DL_INLINE auto value(N a, N b) {
    return a <= b;
  }
};

// a^b
struct Power {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return pow_of(a, b);
  }
};

// The angle of the point (b, a), in (-pi, pi].
struct Atan2 {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return atan2_of(a, b);
  }
};

// sqrt(a a + b b)
struct Hypot {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return hypot_of(a, b);
  }
};

// log(e^a + e^b) and log2(2^a + 2^b), from the larger of both. Two equal ones may be infinite.
struct Logaddexp {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    const N largest = Maximum::value(a, b);
    const N further = largest + log1p_of(exp_of(-abs_of(a - b)));
    return select(a == b, a + N(0.6931471805599453094), further);  // log(2)
  }
};
struct Logaddexp2 {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    const N largest = Maximum::value(a, b);
    const N rest = log1p_of(exp2_of(-abs_of(a - b))) * N(1.4426950408889634074);  // 1 / log(2)
    return select(a == b, a + N(1), largest + rest);
  }
};

// a with the sign of b.
struct Copysign {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return copysign_of(a, b);
  }
};

// 0 below 0, 1 above, else b; 0 of NaN, as in PyTorch.
struct Heaviside {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return select(a == N(0), b, select(N(0) < a, N(1), N(0)));
  }
};

// What is left of a / b, with the sign of a.
struct Fmod {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return fmod_of(a, b);
  }
};

// What is left of a / b, with the sign of b.
struct Remainder {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    const N r = fmod_of(a, b);
    const N of_positive = select(r < N(0), r + b, r);
    const N of_negative = select(N(0) < r, r + b, r);
    return select(b < N(0), of_negative, of_positive);
  }
};

// a / b, rounded down.
struct FloorDivide {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return floor_quotient_of(a, b);
  }
};

struct BitwiseAnd {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a & b;
  }
};
struct BitwiseOr {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a | b;
  }
};
struct BitwiseXor {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return a ^ b;
  }
};

struct BitwiseLeftShift {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return shift_up_of(a, b);
  }
};
struct BitwiseRightShift {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return shift_down_of(a, b);
  }
};

struct LogicalAnd {
  template <typename N>
  static DL_INLINE bool value(N a, N b) {
    return a != N(0) && b != N(0);
  }
};
struct LogicalOr {
  template <typename N>
  static DL_INLINE bool value(N a, N b) {
    return a != N(0) || b != N(0);
  }
};
struct LogicalXor {
  template <typename N>
  static DL_INLINE bool value(N a, N b) {
    return (a != N(0)) != (b != N(0));
  }
};

// Functions of three elements.

// a where the condition is not 0, else b.
struct Where {
  template <typename N>
  static DL_INLINE N value(N condition, N a, N b) {
    return select(condition != N(0), a, b);
  }
};

// a + w (b - a), computed from the nearer end.
struct Lerp {
  template <typename N>
  static DL_INLINE N value(N a, N b, N w) {
    return select(abs_of(w) < N(0.5), a + w * (b - a), b - (b - a) * (N(1) - w));
  }
};

// x + a t u and x + a t / u, from left to right.
struct Addcmul {
  template <typename N>
  static DL_INLINE N value(N x, N t, N u, const Given<N>& p) {
    return x + p.a * t * u;
  }
};
struct Addcdiv {
  template <typename N>
  static DL_INLINE N value(N x, N t, N u, const Given<N>& p) {
    return x + p.a * (t / u);
  }
};

// Calls of a formula, with or without parameters.

template <typename F, typename N>
DL_INLINE N value_of(N x, const Given<N>& p) {
  if constexpr (requires { F::value(x, p); }) {
    return F::value(x, p);
  } else {
    return F::value(x);
  }
}
template <typename F, typename N>
DL_INLINE auto value_of(N a, N b, const Given<N>& p) {
  if constexpr (requires { F::value(a, b, p); }) {
    return F::value(a, b, p);
  } else {
    return F::value(a, b);
  }
}
template <typename F, typename N>
DL_INLINE N value_of(N a, N b, N c, const Given<N>& p) {
  if constexpr (requires { F::value(a, b, c, p); }) {
    return F::value(a, b, c, p);
  } else {
    return F::value(a, b, c);
  }
}
// The gradient of the input, from that of the output and what the row saves.
template <typename F, typename N>
DL_INLINE N gradient_of(N g, N saved, const Given<N>& p) {
  if constexpr (requires { F::gradient(g, saved, p); }) {
    return F::gradient(g, saved, p);
  } else if constexpr (requires { F::gradient(g, saved); }) {
    return F::gradient(g, saved);
  } else if constexpr (requires { F::slope(saved, p); }) {
    return g * F::slope(saved, p);
  } else {
    return g * F::slope(saved);
  }
}

}  // namespace DL_FORMULAS_NAMESPACE
#undef DL_INLINE
#undef DL_FORMULAS_NAMESPACE
