// Functions of two operands. Included by formulas-inl.h, which says how a formula is written.

namespace DL_FORMULAS_NAMESPACE {

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

// NaN if an operand is NaN, as in PyTorch.
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
  template <std::floating_point N>
  static DL_INLINE N value(N a, N b) {
    return std::atan2(a, b);
  }
};

// sqrt(a a + b b)
struct Hypot {
  template <std::floating_point N>
  static DL_INLINE N value(N a, N b) {
    return std::hypot(a, b);
  }
};

// log(e^a + e^b) and log2(2^a + 2^b), computed from the larger operand. Equal operands may be
// infinite.
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

// a log(b), and 0 if a is 0; NaN if b is NaN.
struct Xlogy {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return select(b != b, b, select(a == N(0), N(0), a * log_of(b)));
  }
};

// a with the sign of b.
struct Copysign {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return copysign_of(a, b);
  }
};

// 0 if a < 0, 1 if a > 0, else b; 0 if a is NaN, as in PyTorch.
struct Heaviside {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return select(a == N(0), b, select(N(0) < a, N(1), N(0)));
  }
};

// The remainder of a / b, with the sign of a.
struct Fmod {
  template <typename N>
  static DL_INLINE N value(N a, N b) {
    return fmod_of(a, b);
  }
};

// The remainder of a / b, with the sign of b.
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

// Euclid's algorithm on the magnitudes. gcd(0, 0) is 0. The magnitude of the least number of a
// dtype is not in the dtype: it wraps around, as everywhere.
struct Gcd {
  template <typename T>
  static DL_INLINE Whole<T> value(Whole<T> a, Whole<T> b) {
    auto x = static_cast<typename Whole<T>::Bits>(abs_of(a).v);
    auto y = static_cast<typename Whole<T>::Bits>(abs_of(b).v);
    while (y != 0) {
      const auto rest = x % y;
      x = y;
      y = rest;
    }
    return Whole<T>(static_cast<T>(x));
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

}  // namespace DL_FORMULAS_NAMESPACE
