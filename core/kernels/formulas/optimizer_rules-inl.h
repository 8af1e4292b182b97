// The update of one parameter element for each optimizer: torch.optim's formulas. Included as
// formulas-inl.h is, for the same number types N; T is float or double.
//
// A rule has
//   Factors<T>      values common to all elements of a tensor, computed in double
//   next(step, c)   the parameter's counts after one more step, if the step has any
//   factors<T>(step, lr, c)
//   update(f, first, p, g, state)   changes p and state; g is directed(step, gradient)
// Branches are on factors, which are the same for all elements. rule_of() below a rule names its
// kind of step (core/args/optimizer_args.h).

namespace DL_FORMULAS_NAMESPACE {

// A parameter's counts: its steps, and the product of NAdam's momenta.
struct OptimizerCounts {
  float step;
  float product;
};

DL_INLINE bool same(const OptimizerCounts& a, const OptimizerCounts& b) {
  return a.step == b.step && a.product == b.product;
}

// The gradient that a rule gets: negated for `maximize`, so that the step always descends it.
template <typename Step, typename N>
DL_INLINE N directed(const Step& step, N g) {
  return step.maximize ? -g : g;
}

// a + weight (b - a), computed from the nearer end, because b - a rounds away a b that is much
// smaller than a.
template <typename N, typename T>
DL_INLINE N lerp_of(N a, N b, T weight, T rest) {
  return weight < static_cast<T>(0.5) ? mul_add(N(weight), b - a, a) : mul_add(N(-rest), b - a, b);
}

// The part that Adam, NAdam and RAdam share: weight decay, and the running means of the gradient
// (state[0]) and of its square (state[1]).
template <typename Factors, typename N>
DL_INLINE void take_gradient(const Factors& f, N& p, N& g, N* state) {
  if (f.decay != 0) g = mul_add(N(f.decay), p, g);
  if (f.shrink != 1) p = N(f.shrink) * p;
  state[0] = lerp_of(state[0], g, f.take1, f.keep1);
  state[1] = mul_add(N(f.take2) * g, g, N(f.keep2) * state[1]);
}

struct SgdRule {
  template <typename T>
  struct Factors {
    T lr, decay, keep, take;
    bool nesterov;
  };
  template <typename T>
  static DL_INLINE Factors<T> factors(const SgdStep& s, double lr, OptimizerCounts) {
    return {.lr = static_cast<T>(lr),
            .decay = static_cast<T>(s.weight_decay),
            .keep = static_cast<T>(s.momentum),
            .take = static_cast<T>(1 - s.dampening),
            .nesterov = s.nesterov};
  }
  template <typename N, typename T>
  static DL_INLINE void update(const Factors<T>& f, bool first, N& p, N g, N* state) {
    if (f.decay != 0) g = mul_add(N(f.decay), p, g);
    if (f.keep != 0) {
      state[0] = first ? g : mul_add(N(f.take), g, N(f.keep) * state[0]);
      g = f.nesterov ? mul_add(N(f.keep), state[0], g) : state[0];
    }
    p = mul_add(N(-f.lr), g, p);
  }
};
DL_INLINE SgdRule rule_of(const SgdStep&) {
  return {};
}

// p = shrink p - size m / (sqrt(v) root + eps)
struct AdamRule {
  template <typename T>
  struct Factors {
    T keep1, take1, keep2, take2, eps, decay, shrink, size, root;
    bool amsgrad;
  };
  static DL_INLINE OptimizerCounts next(const AdamStep&, OptimizerCounts c) {
    return {c.step + 1, c.product};
  }
  template <typename T>
  static DL_INLINE Factors<T> factors(const AdamStep& s, double lr, OptimizerCounts c) {
    const double t = c.step;
    return {.keep1 = static_cast<T>(s.beta1),
            .take1 = static_cast<T>(1 - s.beta1),
            .keep2 = static_cast<T>(s.beta2),
            .take2 = static_cast<T>(1 - s.beta2),
            .eps = static_cast<T>(s.eps),
            .decay = static_cast<T>(s.decoupled ? 0 : s.weight_decay),
            .shrink = static_cast<T>(s.decoupled ? 1 - lr * s.weight_decay : 1),
            .size = static_cast<T>(lr / (1 - std::pow(s.beta1, t))),
            .root = static_cast<T>(1 / std::sqrt(1 - std::pow(s.beta2, t))),
            .amsgrad = s.amsgrad};
  }
  template <typename N, typename T>
  static DL_INLINE void update(const Factors<T>& f, bool, N& p, N g, N* state) {
    take_gradient(f, p, g, state);
    if (f.amsgrad) state[2] = select(state[1] < state[2], state[2], state[1]);
    const N square = f.amsgrad ? state[2] : state[1];
    p = p - N(f.size) * state[0] / mul_add(sqrt_of(square), N(f.root), N(f.eps));
  }
};
DL_INLINE AdamRule rule_of(const AdamStep&) {
  return {};
}

// p = shrink p - (size_g g + size_m m) / (sqrt(v) root + eps)
struct NAdamRule {
  template <typename T>
  struct Factors {
    T keep1, take1, keep2, take2, eps, decay, shrink, size_g, size_m, root;
  };
  static DL_INLINE double momentum(const NAdamStep& s, double t) {
    return s.beta1 * (1 - 0.5 * std::pow(0.96, t * s.momentum_decay));
  }
  static DL_INLINE OptimizerCounts next(const NAdamStep& s, OptimizerCounts c) {
    const float step = c.step + 1;
    return {step, c.product * static_cast<float>(momentum(s, step))};
  }
  template <typename T>
  static DL_INLINE Factors<T> factors(const NAdamStep& s, double lr, OptimizerCounts c) {
    const double t = c.step;
    const double product = c.product;
    const double coming = momentum(s, t + 1);
    return {.keep1 = static_cast<T>(s.beta1),
            .take1 = static_cast<T>(1 - s.beta1),
            .keep2 = static_cast<T>(s.beta2),
            .take2 = static_cast<T>(1 - s.beta2),
            .eps = static_cast<T>(s.eps),
            .decay = static_cast<T>(s.decoupled ? 0 : s.weight_decay),
            .shrink = static_cast<T>(s.decoupled ? 1 - lr * s.weight_decay : 1),
            .size_g = static_cast<T>(lr * (1 - momentum(s, t)) / (1 - product)),
            .size_m = static_cast<T>(lr * coming / (1 - product * coming)),
            .root = static_cast<T>(1 / std::sqrt(1 - std::pow(s.beta2, t)))};
  }
  template <typename N, typename T>
  static DL_INLINE void update(const Factors<T>& f, bool, N& p, N g, N* state) {
    take_gradient(f, p, g, state);
    const N way = mul_add(N(f.size_g), g, N(f.size_m) * state[0]);
    p = p - way / mul_add(sqrt_of(state[1]), N(f.root), N(f.eps));
  }
};
DL_INLINE NAdamRule rule_of(const NAdamStep&) {
  return {};
}

// p = shrink p - size m / (sqrt(v) + eps), or p = shrink p - size m in the first steps, in which
// the second mean has seen too few gradients to scale by.
struct RAdamRule {
  template <typename T>
  struct Factors {
    T keep1, take1, keep2, take2, eps, decay, shrink, size;
    bool scaled;
  };
  static DL_INLINE OptimizerCounts next(const RAdamStep&, OptimizerCounts c) {
    return {c.step + 1, c.product};
  }
  template <typename T>
  static DL_INLINE Factors<T> factors(const RAdamStep& s, double lr, OptimizerCounts c) {
    const double t = c.step;
    const double kept2 = std::pow(s.beta2, t);
    const double limit = 2 / (1 - s.beta2) - 1;  // of `length` for many steps
    const double length = limit - 2 * t * kept2 / (1 - kept2);
    const bool scaled = length > 5;
    const double rectified =
        (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length) * (1 - kept2);
    const double size = lr / (1 - std::pow(s.beta1, t));
    return {.keep1 = static_cast<T>(s.beta1),
            .take1 = static_cast<T>(1 - s.beta1),
            .keep2 = static_cast<T>(s.beta2),
            .take2 = static_cast<T>(1 - s.beta2),
            .eps = static_cast<T>(s.eps),
            .decay = static_cast<T>(s.decoupled ? 0 : s.weight_decay),
            .shrink = static_cast<T>(s.decoupled ? 1 - lr * s.weight_decay : 1),
            .size = static_cast<T>(scaled ? size * std::sqrt(rectified) : size),
            .scaled = scaled};
  }
  template <typename N, typename T>
  static DL_INLINE void update(const Factors<T>& f, bool, N& p, N g, N* state) {
    take_gradient(f, p, g, state);
    const N way = N(f.size) * state[0];
    p = p - (f.scaled ? way / (sqrt_of(state[1]) + N(f.eps)) : way);
  }
};
DL_INLINE RAdamRule rule_of(const RAdamStep&) {
  return {};
}

struct RMSpropRule {
  template <typename T>
  struct Factors {
    T lr, keep, take, eps, decay, momentum;
    bool centered;
  };
  static DL_INLINE OptimizerCounts next(const RMSpropStep&, OptimizerCounts c) {
    return {c.step + 1, c.product};
  }
  template <typename T>
  static DL_INLINE Factors<T> factors(const RMSpropStep& s, double lr, OptimizerCounts) {
    return {.lr = static_cast<T>(lr),
            .keep = static_cast<T>(s.alpha),
            .take = static_cast<T>(1 - s.alpha),
            .eps = static_cast<T>(s.eps),
            .decay = static_cast<T>(s.weight_decay),
            .momentum = static_cast<T>(s.momentum),
            .centered = s.centered};
  }
  template <typename N, typename T>
  static DL_INLINE void update(const Factors<T>& f, bool, N& p, N g, N* state) {
    if (f.decay != 0) g = mul_add(N(f.decay), p, g);
    state[0] = mul_add(N(f.take) * g, g, N(f.keep) * state[0]);
    N variance = state[0];
    if (f.centered) {
      state[1] = lerp_of(state[1], g, f.take, f.keep);
      variance = mul_add(-state[1], state[1], variance);
    }
    g = g / (sqrt_of(variance) + N(f.eps));
    if (f.momentum != 0) g = state[2] = mul_add(N(f.momentum), state[2], g);
    p = mul_add(N(-f.lr), g, p);
  }
};
DL_INLINE RMSpropRule rule_of(const RMSpropStep&) {
  return {};
}

struct AdagradRule {
  template <typename T>
  struct Factors {
    T lr, eps, decay;
  };
  static DL_INLINE OptimizerCounts next(const AdagradStep&, OptimizerCounts c) {
    return {c.step + 1, c.product};
  }
  template <typename T>
  static DL_INLINE Factors<T> factors(const AdagradStep& s, double lr, OptimizerCounts c) {
    return {.lr = static_cast<T>(lr / (1 + (c.step - 1) * s.lr_decay)),
            .eps = static_cast<T>(s.eps),
            .decay = static_cast<T>(s.weight_decay)};
  }
  template <typename N, typename T>
  static DL_INLINE void update(const Factors<T>& f, bool, N& p, N g, N* state) {
    if (f.decay != 0) g = mul_add(N(f.decay), p, g);
    state[0] = mul_add(g, g, state[0]);
    p = p - N(f.lr) * g / (sqrt_of(state[0]) + N(f.eps));
  }
};
DL_INLINE AdagradRule rule_of(const AdagradStep&) {
  return {};
}

// The rule of a kind of step.
template <typename Step>
using RuleOf = decltype(rule_of(Step()));

// The step with another momentum: beta1 of the Adam family, or else the momentum if it has one. A
// step without one has no buffer for it.
template <typename Step>
DL_INLINE Step with_momentum(Step step, double momentum) {
  if constexpr (requires { step.beta1; }) {
    step.beta1 = momentum;
  } else if constexpr (requires { step.momentum; }) {
    if (step.momentum != 0) step.momentum = momentum;
  }
  return step;
}

// Reads the tensor's counts.
template <typename Step>
DL_INLINE OptimizerCounts counts_of(float* const* counts) {
  return {Step::kCounts > 0 ? *counts[0] : 0, Step::kCounts > 1 ? *counts[1] : 0};
}

// Advances the tensor's counts by one step.
template <typename Step>
DL_INLINE void raise_counts(const Step& step, float* const* counts) {
  if constexpr (Step::kCounts > 0) {
    const OptimizerCounts next = RuleOf<Step>::next(step, counts_of<Step>(counts));
    *counts[0] = next.step;
    if constexpr (Step::kCounts > 1) *counts[1] = next.product;
  }
}

}  // namespace DL_FORMULAS_NAMESPACE

#undef DL_FORMULAS_NAMESPACE
#undef DL_INLINE
