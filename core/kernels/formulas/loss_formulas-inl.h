// The formula of each loss of core/elementwise/losses.def for one element, and its derivatives with
// respect to the input x and the target t. Written once for all number types and without branches,
// like formulas-inl.h.
//
// Included once for each instruction set, so it has no guard: the includer defines DL_INLINE and
// DL_FORMULAS_NAMESPACE.

namespace DL_FORMULAS_NAMESPACE {

// One element: input, target, weight of a positive target, and the row's argument.
template <typename N>
struct LossElement {
  N x;
  N t;
  N q;
  N a;
};

template <typename N>
DL_INLINE N sign_of_difference(N x, N t) {
  return select(x < t, N(-1), select(t < x, N(1), N(0)));
}
template <typename N>
DL_INLINE N at_least(N x, N least) {
  return select(x < least, least, x);
}
// The sign of d; NaN if d is NaN.
template <typename N>
DL_INLINE N sign_or_nan(N d) {
  return select(d == d, sign_of_difference(d, N(0)), d);
}
// log(1 + e^-x)
template <typename N>
DL_INLINE N softplus_of_negative(N x) {
  return log1p_of(exp_of(-abs_of(x))) + select(x < N(0), -x, N(0));
}

// For a loss of x - t: its derivative by t is minus its derivative by x.
template <typename F>
struct OfDifference {  // NOLINT(bugprone-crtp-constructor-accessibility): of static functions
  template <typename N>
  static DL_INLINE N target_slope(const LossElement<N>& e) {
    return -F::slope(e);
  }
};

struct Mse : OfDifference<Mse> {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    const N d = e.x - e.t;
    return d * d;
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    return N(2) * (e.x - e.t);
  }
};

struct L1 : OfDifference<L1> {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    return abs_of(e.x - e.t);
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    return sign_of_difference(e.x, e.t);
  }
};

// Girshick 2015.
struct SmoothL1 : OfDifference<SmoothL1> {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    const N z = abs_of(e.x - e.t);
    return select(z < e.a, N(0.5) * z * z / e.a, z - N(0.5) * e.a);
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    const N d = e.x - e.t;
    return select(abs_of(d) < e.a, d / e.a, sign_or_nan(d));
  }
};

// Huber 1964.
struct Huber : OfDifference<Huber> {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    const N z = abs_of(e.x - e.t);
    return select(z <= e.a, N(0.5) * z * z, e.a * (z - N(0.5) * e.a));
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    const N d = e.x - e.t;
    return select(abs_of(d) <= e.a, d, e.a * sign_or_nan(d));
  }
};

// PyTorch's bounds: a logarithm is at least -100, and the gradient's denominator at least the
// float32 nearest to 1e-12.
struct Bce {
  template <typename N>
  static DL_INLINE N log_of_input(const LossElement<N>& e) {
    return at_least(log_of(e.x), N(-100));
  }
  template <typename N>
  static DL_INLINE N log_of_rest(const LossElement<N>& e) {
    return at_least(log1p_of(-e.x), N(-100));
  }
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    return (e.t - N(1)) * log_of_rest(e) - e.t * log_of_input(e);
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    return (e.x - e.t) / at_least((N(1) - e.x) * e.x, N(static_cast<double>(1e-12f)));
  }
  template <typename N>
  static DL_INLINE N target_slope(const LossElement<N>& e) {
    return log1p_of(-e.x) - log_of(e.x);  // without bounds
  }
};

// Without a weight (q = 1) nothing is multiplied by 0, which would turn an infinite target or logit
// into NaN.
struct BceWithLogits {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    const N share = select(e.q == N(1), N(1), (e.q - N(1)) * e.t + N(1));
    return (N(1) - e.t) * e.x + share * softplus_of_negative(e.x);
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    const N positive = e.q * e.t;
    const N both = select(e.q == N(1), N(1), positive + N(1) - e.t);
    return both / (N(1) + exp_of(-e.x)) - positive;
  }
  template <typename N>
  static DL_INLINE N target_slope(const LossElement<N>& e) {
    const N by_weight = select(e.q == N(1), N(0), (e.q - N(1)) * softplus_of_negative(e.x));
    return by_weight - e.x;
  }
};

// Kullback and Leibler 1951; x is the logarithm of a probability, t the target probability.
struct KlDiv {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    return select(e.t == N(0), N(0), e.t * log_of(e.t)) - e.t * e.x;
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    return -e.t;
  }
  template <typename N>
  static DL_INLINE N target_slope(const LossElement<N>& e) {
    // t / t, as PyTorch's derivative of xlogy: NaN at 0.
    return select(e.t == N(0), N(0), log_of(e.t)) + e.t / e.t - e.x;
  }
};

struct KlDivLog {
  template <typename N>
  static DL_INLINE N value(const LossElement<N>& e) {
    return exp_of(e.t) * (e.t - e.x);
  }
  template <typename N>
  static DL_INLINE N slope(const LossElement<N>& e) {
    return -exp_of(e.t);
  }
  template <typename N>
  static DL_INLINE N target_slope(const LossElement<N>& e) {
    return exp_of(e.t) * (e.t - e.x + N(1));
  }
};

}  // namespace DL_FORMULAS_NAMESPACE
#undef DL_INLINE
#undef DL_FORMULAS_NAMESPACE
