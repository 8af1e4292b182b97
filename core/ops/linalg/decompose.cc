// Cholesky, QR and singular value decompositions.
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/linalg/linalg.h"
#include "core/ops/linalg/matrices.h"
#include "core/ops/linear/linear.h"
#include "core/ops/reduce/reduce.h"

namespace dl::linalg {
namespace {

// Sets the elements below the diagonal to zero, or those above it.
template <typename T>
void clear_triangle(T* a, std::int64_t rows, std::int64_t columns, bool below) {
  for (std::int64_t j = 0; j < columns; ++j) {
    T* const column = a + j * rows;
    if (below) {
      if (j + 1 < rows) std::fill(column + j + 1, column + rows, T(0));
    } else {
      std::fill(column, column + std::min(j, rows), T(0));
    }
  }
}

// The gradient is L^-T S L^-1. S is symmetric: its lower triangle, with the diagonal, is half of
// that of L^T g (Murray 2016, "Differentiation of the Cholesky decomposition").
struct CholeskyBackward final : Node {
  std::string_view name() const noexcept override { return "linalg.cholesky"; }
  void backward(BackwardContext& context) override { give(context, inverse_of(factor(), name())); }
  void backward_recorded(BackwardContext& context) override { give(context, inv(factor())); }
  Tensor factor() const { return upper ? mT(saved(0)) : saved(0); }
  void give(BackwardContext& context, const Tensor& inverse) const {
    const Tensor& gradient = context.grad_output();
    const Tensor l = factor();
    const Tensor lower = tril(matmul(mT(l), upper ? mT(gradient) : gradient));
    const Tensor symmetric = mul(add(lower, mT(tril(lower, -1))), 0.5);
    context.give(0, matmul(mT(inverse), matmul(symmetric, inverse)));
  }
  bool upper = false;
};

// Outputs: Q, R, which are saved, of a matrix with at least as many rows as columns. With
// M = R gR^T - gQ^T Q the gradient is (gQ + Q S) R^-T, S being the symmetric matrix with the lower
// triangle of M (Walter and Lehmann 2018).
struct QrBackward final : Node {
  std::string_view name() const noexcept override { return "linalg.qr"; }
  void backward(BackwardContext& context) override {
    const Tensor& to_q = context.grad_output(0);
    const Tensor& to_r = context.grad_output(1);
    const Tensor& q = saved(0);
    const Tensor& r = saved(1);
    Tensor m = zeros_like(r);
    if (to_r.defined()) m = add(m, matmul(r, mT(to_r)));
    if (to_q.defined()) m = sub(m, matmul(mT(to_q), q));
    const Tensor symmetric = add(tril(m), mT(tril(m, -1)));
    Tensor inner = matmul(q, symmetric);
    if (to_q.defined()) inner = add(inner, to_q);
    // inner R^-T, from R X = inner^T
    context.give(0, mT(solved(r, mT(inner), false, name())));
  }
};

// Outputs: U, S, Vh, which are saved, each with k vectors.
struct SvdBackward final : Node {
  std::string_view name() const noexcept override { return "linalg.svd"; }
  void backward(BackwardContext& context) override {
    const Tensor& s = saved(1);
    const std::int64_t k = s.size(-1);
    const Tensor u = saved(0).narrow(-1, 0, k);
    const Tensor vh = saved(2).narrow(-2, 0, k);
    const auto part = [&](std::size_t output, std::int64_t dim) {
      const Tensor& gradient = context.grad_output(output);
      return gradient.defined() ? gradient.narrow(dim, 0, k) : gradient;
    };
    const Tensor to_u = part(0, -1);
    const Tensor& to_s = context.grad_output(1);
    const Tensor to_vh = part(2, -2);
    // s_j^2 - s_i^2 in row i and column j; 1 on the diagonal, because the numerators are 0 there.
    const Tensor column = s.unsqueeze(-1);
    const Tensor row = s.unsqueeze(-2);
    const Tensor on_diagonal = eye(k, {.dtype = DType::kBool, .device = s.device()});
    const Tensor gaps = mul(sub(row, column), add(row, column)).masked_fill(on_diagonal, 1);
    Tensor inner = zeros_like(gaps);
    if (to_s.defined()) inner = add(inner, where(on_diagonal, to_s.unsqueeze(-2), 0.0));
    if (to_u.defined()) {
      const Tensor turn = matmul(mT(u), to_u);
      inner = add(inner, mul(div(sub(turn, mT(turn)), gaps), row));
    }
    if (to_vh.defined()) {
      const Tensor turn = matmul(vh, mT(to_vh));
      inner = add(inner, mul(column, div(sub(turn, mT(turn)), gaps)));
    }
    Tensor result = matmul(u, matmul(inner, vh));
    // The part of the gradients outside the spaces that the columns of U and V span.
    if (to_u.defined() && u.size(-2) > k) {
      const Tensor outside = sub(to_u, matmul(u, matmul(mT(u), to_u)));
      result = add(result, matmul(div(outside, row), vh));
    }
    if (to_vh.defined() && vh.size(-1) > k) {
      const Tensor outside = sub(to_vh, matmul(matmul(to_vh, mT(vh)), vh));
      result = add(result, matmul(u, div(outside, column)));
    }
    context.give(0, result);
  }
};

QrResult qr_values(const Tensor& input, bool complete, bool with_q) {
  constexpr std::string_view kName = "linalg.qr";
  lapack::require(kName);
  const std::int64_t m = input.size(-2);
  const std::int64_t n = input.size(-1);
  const std::int64_t k = std::min(m, n);
  const std::int64_t kept = complete ? m : k;
  const Columns a(input);
  const Columns q(batch_with(input, 2, {m, with_q ? kept : 0}), input);
  const Columns r(batch_with(input, 2, {kept, n}), input);
  with_type(input.dtype(), [&]<typename T>() {
    std::vector<T> tau(static_cast<std::size_t>(k));
    for (std::int64_t i = 0; i < a.count(); ++i) {
      lapack::qr_factor(m, n, a.at<T>(i), tau.data());
      for (std::int64_t j = 0; j < n; ++j) {
        std::copy_n(a.at<T>(i) + j * m, std::min(j + 1, k), r.at<T>(i) + j * kept);
      }
      if (!with_q) continue;
      std::copy_n(a.at<T>(i), m * k, q.at<T>(i));
      lapack::qr_vectors(m, kept, k, q.at<T>(i), tau.data());
    }
  });
  return {with_q ? q.on(input.device()) : Tensor(), r.on(input.device())};
}

void record_outputs(const Ref<Node>& node, std::initializer_list<Tensor> outputs,
                    const char* grad_fn) {
  node->set_grad_fn_name(grad_fn);
  node->set_output_count(static_cast<std::uint32_t>(outputs.size()));
  std::uint32_t number = 0;
  for (const Tensor& output : outputs) {
    dl::detail::attach(output, node, number++);
    node->save(output);
  }
}

}  // namespace

SvdResult svd_values(const Tensor& input, bool full, bool with_vectors, std::string_view op) {
  lapack::require(op);
  const std::int64_t m = input.size(-2);
  const std::int64_t n = input.size(-1);
  const std::int64_t k = std::min(m, n);
  const Columns a(input);
  const bool none = !with_vectors;
  const Columns u(batch_with(input, 2, {m, none ? 0 : full ? m : k}), input);
  const Columns vh(batch_with(input, 2, {none ? 0 : full ? n : k, n}), input);
  const Tensor s = empty(batch_with(input, 2, {k}), {.dtype = input.dtype()});
  with_type(input.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < a.count(); ++i) {
      T* const matrix = a.at<T>(i);
      DL_CHECK(std::all_of(matrix, matrix + m * n, [](T x) { return std::isfinite(x); }),
               kInvalidArgument, "{}: matrix {} of the batch has an infinity or NaN", op, i);
      T* const values = s.data<T>() + i * k;
      const lapack::Info info =
          none ? lapack::svd<T>(full, m, n, matrix, values, nullptr, nullptr)
               : lapack::svd<T>(full, m, n, matrix, values, u.at<T>(i), vh.at<T>(i));
      DL_CHECK(info == 0, kInvalidArgument, "{}: matrix {} of the batch did not converge", op, i);
      if (k > 0 || none || !full) continue;
      for (std::int64_t d = 0; d < m; ++d) u.at<T>(i)[d * (m + 1)] = T(1);
      for (std::int64_t d = 0; d < n; ++d) vh.at<T>(i)[d * (n + 1)] = T(1);
    }
  });
  const Device device = input.device();
  if (none) return {{}, s.to(device), {}};
  return {u.on(device), s.to(device), vh.on(device)};
}

Tensor cholesky(const Tensor& input, CholeskyOptions options) {
  constexpr std::string_view kName = "linalg.cholesky";
  check_square(input, kName);
  lapack::require(kName);
  const Columns a(input);
  const std::int64_t n = a.rows();
  with_type(input.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const lapack::Info info = lapack::cholesky(options.upper, n, a.at<T>(i));
      DL_CHECK(info == 0, kInvalidArgument,
               "{}: matrix {} of the batch is not positive definite: its leading minor of order {} "
               "is not positive",
               kName, i, info);
      clear_triangle(a.at<T>(i), n, n, options.upper);
    }
  });
  const Tensor result = a.on(input.device());
  if (auto* node = record<CholeskyBackward>(result, input)) {
    node->set_grad_fn_name("LinalgCholeskyExBackward0");
    node->upper = options.upper;
    node->save(result);
  }
  return result;
}

QrResult qr(const Tensor& input, std::string_view mode) {
  constexpr std::string_view kName = "linalg.qr";
  check_matrices(input, kName);
  DL_CHECK(mode == "reduced" || mode == "complete" || mode == "r", kInvalidArgument,
           "{}: mode is \"{}\", wanted \"reduced\", \"complete\" or \"r\"", kName, mode);
  const std::int64_t m = input.size(-2);
  const std::int64_t n = input.size(-1);
  const bool complete = mode == "complete" && m > n;
  if (!is_recorded(input) || mode == "r" || complete) {
    DL_CHECK(!is_recorded(input), kNotImplemented,
             "{}: mode \"{}\" has no gradient for a matrix of shape {}; use \"reduced\"", kName,
             mode, input.sizes().str());
    return qr_values(input, complete, mode != "r");
  }
  if (m < n) {
    // The first columns give Q; the gradient of R's others is that of a product.
    const QrResult square = qr(input.narrow(-1, 0, m));
    return {square.q, cat({square.r, matmul(mT(square.q), input.narrow(-1, m, n - m))}, -1)};
  }
  const QrResult result = qr_values(input, false, true);
  record_outputs(make_node<QrBackward>(input), {result.q, result.r}, "LinalgQrBackward0");
  return result;
}

SvdResult svd(const Tensor& input, SvdOptions options) {
  constexpr std::string_view kName = "linalg.svd";
  check_matrices(input, kName);
  const SvdResult result = svd_values(input, options.full_matrices, true, kName);
  if (const Ref<SvdBackward> node = make_node<SvdBackward>(input)) {
    record_outputs(node, {result.u, result.s, result.vh}, "LinalgSvdBackward0");
  }
  return result;
}

Tensor svdvals(const Tensor& input) {
  constexpr std::string_view kName = "linalg.svdvals";
  check_matrices(input, kName);
  if (is_recorded(input)) return svd(input, {.full_matrices = false}).s;
  return svd_values(input, false, false, kName).s;
}

}  // namespace dl::linalg
