// Rows that are scalar loops (float64, integers, comparisons), and the tables of all rows.
#include <algorithm>

#include "core/kernels/cpu/elementwise/rows.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cpu {
namespace {

template <typename N>
formulas::Given<N> given(const Parameters& p) {
  if constexpr (std::is_floating_point_v<N>) {
    return {static_cast<N>(p.a), static_cast<N>(p.b)};
  } else {
    return {N(static_cast<decltype(N::v)>(p.whole)), N(0)};
  }
}

template <typename F, typename T>
void unary_scalars(const RowArguments& run) {
  using N = NumberOf<T>;
  const auto* const in = static_cast<const T*>(run.in[0]);
  auto* const out = static_cast<T*>(run.out);
  const auto p = given<N>(run.parameters);
  if (run.step[0] == 0) {
    std::fill_n(out, run.count, T(element_of(formulas::value_of<F>(N(*in), p))));
    return;
  }
  for (std::int64_t i = 0; i < run.count; ++i) {
    out[i] = element_of(formulas::value_of<F>(N(in[i]), p));
  }
}

// out[i] = f(a[i], b[i]), with separate loops for dense operands and for a scalar on the right.
template <typename T, typename Out, typename F>
void two_scalars(const RowArguments& run, const F& f) {
  using N = NumberOf<T>;
  const auto* const a = static_cast<const T*>(run.in[0]);
  const auto* const b = static_cast<const T*>(run.in[1]);
  auto* const out = static_cast<Out*>(run.out);
  const std::int64_t count = run.count;
  if (run.step[0] == 1 && run.step[1] == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(N(a[i]), N(b[i]));
  } else if (run.step[0] == 1) {
    const N value(*b);
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(N(a[i]), value);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(N(*a), N(b[i * run.step[1]]));
  }
}

template <typename F, typename T>
void gradient_scalars(const RowArguments& run) {
  const auto p = given<T>(run.parameters);
  two_scalars<T, T>(run, [&](T g, T saved) { return formulas::gradient_of<F>(g, saved, p); });
}

template <typename F, typename T>
void binary_scalars(const RowArguments& run) {
  using N = NumberOf<T>;
  const auto p = given<N>(run.parameters);
  two_scalars<T, T>(run, [&](N a, N b) { return element_of(formulas::value_of<F>(a, b, p)); });
}

template <typename F, typename T>
void ternary_scalars(const RowArguments& run) {
  using N = NumberOf<T>;
  const auto* const a = static_cast<const T*>(run.in[0]);
  const auto* const b = static_cast<const T*>(run.in[1]);
  const auto* const c = static_cast<const T*>(run.in[2]);
  auto* const out = static_cast<T*>(run.out);
  const auto p = given<N>(run.parameters);
  for (std::int64_t i = 0; i < run.count; ++i) {
    out[i] = element_of(formulas::value_of<F>(N(a[i * run.step[0]]), N(b[i * run.step[1]]),
                                              N(c[i * run.step[2]]), p));
  }
}

template <typename F, typename T>
void comparison_scalars(const RowArguments& run) {
  using N = NumberOf<T>;
  two_scalars<T, bool>(run, [](N a, N b) { return F::value(a, b); });
}

template <UnaryFn fn, typename F>
constexpr Rows unary_rows() {
  Rows rows{.f64 = &unary_scalars<F, double>};
  if constexpr (computes_integers(facts(fn).takes)) {
    rows.i64 = &unary_scalars<F, std::int64_t>;
    rows.u64 = &unary_scalars<F, std::uint64_t>;
  }
  return rows;
}

template <BinaryFn fn, typename F>
constexpr Rows binary_rows() {
  if constexpr (facts(fn).gives == Gives::kBool) {
    return {.f32 = &comparison_scalars<F, float>,
            .f64 = &comparison_scalars<F, double>,
            .i64 = &comparison_scalars<F, std::int64_t>,
            .u64 = &comparison_scalars<F, std::uint64_t>,
            .give_bool = true};
  } else {
    Rows rows;
    if constexpr (computes_floats(facts(fn).takes)) rows.f64 = &binary_scalars<F, double>;
    if constexpr (computes_integers(facts(fn).takes)) {
      rows.i64 = &binary_scalars<F, std::int64_t>;
      rows.u64 = &binary_scalars<F, std::uint64_t>;
    }
    return rows;
  }
}

template <TernaryFn fn, typename F>
constexpr Rows ternary_rows() {
  Rows rows{.f64 = &ternary_scalars<F, double>};
  if constexpr (computes_integers(facts(fn).takes)) {
    rows.i64 = &ternary_scalars<F, std::int64_t>;
    rows.u64 = &ternary_scalars<F, std::uint64_t>;
  }
  return rows;
}

constexpr Rows kUnaryRows[] = {
#define DL_UNARY_FN(enumerator, name, Formula, ...) \
  unary_rows<UnaryFn::enumerator, formulas::Formula>(),
#include "core/elementwise/list.def"
};
constexpr Row kGradients[] = {
#define DL_UNARY_FN(enumerator, name, Formula, ...) &gradient_scalars<formulas::Formula, double>,
#include "core/elementwise/list.def"
};
constexpr Rows kBinaryRows[] = {
#define DL_BINARY(enumerator, name, Formula, ...) \
  binary_rows<BinaryFn::enumerator, formulas::Formula>(),
#include "core/elementwise/list.def"
};
constexpr Rows kTernaryRows[] = {
#define DL_TERNARY(enumerator, name, Formula, ...) \
  ternary_rows<TernaryFn::enumerator, formulas::Formula>(),
#include "core/elementwise/list.def"
};

Rows with_vectors(Rows rows, VectorRows vectors) {
  rows.f32 = vectors.f32;
  rows.bf16 = vectors.bf16;
  return rows;
}

}  // namespace

Rows rows_of(UnaryFn fn) noexcept {
  return with_vectors(kUnaryRows[static_cast<std::size_t>(fn)], vector_rows_of(fn));
}

Rows gradient_rows_of(UnaryFn fn) noexcept {
  return with_vectors({.f64 = kGradients[static_cast<std::size_t>(fn)]},
                      vector_gradient_rows_of(fn));
}

Rows rows_of(BinaryFn fn) noexcept {
  const Rows& rows = kBinaryRows[static_cast<std::size_t>(fn)];
  return rows.give_bool ? rows : with_vectors(rows, vector_rows_of(fn));
}

Rows rows_of(TernaryFn fn) noexcept {
  Rows rows = kTernaryRows[static_cast<std::size_t>(fn)];
  rows.f32 = vector_row_of(fn);
  return rows;
}

}  // namespace dl::kernels::cpu
