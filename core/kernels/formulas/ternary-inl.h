// Functions of three elements. Included by formulas-inl.h, which says how a formula is written.

namespace DL_FORMULAS_NAMESPACE {

// a if the condition is not 0, else b.
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

}  // namespace DL_FORMULAS_NAMESPACE
