// Activation functions. Included by formulas-inl.h, which says how a formula is written.

namespace DL_FORMULAS_NAMESPACE {

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

// x, or a x if x < 0.
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

// x, or a (e^x - 1) if x < 0.
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

// log(1 + e^(a x)) / a, or x if a x > b.
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

// Elu with constants that keep the mean and variance of a layer's outputs (Klambauer et al. 2017).
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

// x, or a (e^(x / a) - 1) if x < 0.
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

// x, moved towards 0 by a; NaN stays NaN. The gradient is 0 if |x| <= a.
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

// x, or 0 if -a <= x <= a.
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

// x, or b if x <= a.
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

}  // namespace DL_FORMULAS_NAMESPACE
