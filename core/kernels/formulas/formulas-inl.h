// The formula of each element-wise operation for one element. Written once, for every number type
// N: float, double and Whole<T> (numbers.h) in loops of scalars and on CUDA, and vectors of float
// on the CPU (cpu/elementwise/vector/lanes-inl.h). float16 and bfloat16 are computed as float.
//
// Included once for each instruction set, so it has no guard: the includer defines DL_INLINE, the
// qualifiers of each function, and DL_FORMULAS_NAMESPACE, the namespace of `select`, `exp_of` and
// similar functions for its number types. Formulas have no branches, because a comparison of
// vectors has no single result.
//
// A formula of one element has value(x), and slope(s): the derivative as a function of what the row
// saves, the input x or the output y. A formula whose gradient is not gradient times slope, because
// of its rounding or of infinite gradients, has gradient(g, s) instead. A formula with parameters
// takes them last, as Given<N>.
//
// A formula of two elements whose N is std::floating_point is of scalars only: it may branch and
// call any function of the standard library. Vectors go through it lane by lane.

namespace DL_FORMULAS_NAMESPACE {

template <typename N>
struct Given {
  N a;
  N b;
};

}  // namespace DL_FORMULAS_NAMESPACE

#include "core/kernels/formulas/activations-inl.h"
#include "core/kernels/formulas/binary-inl.h"
#include "core/kernels/formulas/ternary-inl.h"
#include "core/kernels/formulas/unary-inl.h"

namespace DL_FORMULAS_NAMESPACE {

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
