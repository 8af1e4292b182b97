// Systems of equations, inverses and determinants, from LU decompositions.
#include <limits>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linalg/linalg.h"
#include "core/ops/linalg/matrices.h"
#include "core/ops/linear/linear.h"
#include "core/ops/reduce/reduce.h"

namespace dl::linalg {

Tensor identity_like(const Tensor& square) {
  return eye(square.size(-1), {.dtype = square.dtype(), .device = square.device()})
      .expand(square.sizes());
}

Tensor solved(const Tensor& a, const Tensor& b, bool transposed, std::string_view op) {
  lapack::require(op);
  const Columns left(a);
  const Columns right(b);
  std::vector<int> pivots(static_cast<std::size_t>(left.rows()));
  with_type(a.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < left.count(); ++i) {
      T* const lu = left.at<T>(i);
      const lapack::Info info = lapack::lu_factor(left.rows(), left.rows(), lu, pivots.data());
      DL_CHECK(info == 0, kInvalidArgument,
               "{}: matrix {} of the batch is singular: pivot {} is zero", op, i, info - 1);
      lapack::lu_solve(transposed, left.rows(), right.columns(), lu, pivots.data(), right.at<T>(i));
    }
  });
  return right.on(a.device());
}

namespace {

struct InvBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "linalg.inv"; }
  void backward(BackwardContext& context) override {
    const Tensor turned = mT(saved(0));
    context.give(0, neg(matmul(turned, matmul(context.grad_output(), turned))));
  }
};

Tensor solved_matrices(const Tensor& a, const Tensor& b);

// Inputs: A, B. Saved: A, X.
struct SolveBackward final : Node {
  std::string_view name() const noexcept override { return "linalg.solve"; }
  void backward(BackwardContext& context) override {
    give(context, solved(saved(0), context.grad_output(), true, name()));
  }
  void backward_recorded(BackwardContext& context) override {
    give(context, solved_matrices(mT(saved(0)), context.grad_output()));
  }
  void give(BackwardContext& context, const Tensor& to_b) const {
    if (context.needs(0)) context.give(0, neg(matmul(to_b, mT(saved(1)))));
    if (context.needs(1)) context.give(1, to_b);
  }
};

struct Determinants {
  Tensor sign;
  Tensor log;    // of the magnitude
  Tensor value;  // the product of both
};

Determinants determinants_of(const Tensor& input, std::string_view op) {
  lapack::require(op);
  const Columns lu(input);
  const std::int64_t n = lu.rows();
  const Shape shape = batch_with(input, 2);
  Determinants found;
  for (Tensor* each : {&found.sign, &found.log, &found.value}) {
    *each = empty(shape, {.dtype = input.dtype()});
  }
  std::vector<int> pivots(static_cast<std::size_t>(n));
  with_type(input.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < lu.count(); ++i) {
      T* const a = lu.at<T>(i);
      lapack::lu_factor(n, n, a, pivots.data());  // a singular matrix has a zero on the diagonal
      T sign = 1;
      T log = 0;
      T value = 1;
      for (std::int64_t k = 0; k < n; ++k) {
        const T pivot = a[k * (n + 1)];
        if (pivots[static_cast<std::size_t>(k)] != k + 1) {
          sign = -sign;
          value = -value;
        }
        sign = pivot == T(0) ? T(0) : pivot < T(0) ? -sign : sign;
        log += std::log(std::abs(pivot));
        value *= pivot;
      }
      found.sign.data<T>()[i] = sign;
      found.log.data<T>()[i] = log;
      found.value.data<T>()[i] = value;
    }
  });
  for (Tensor* each : {&found.sign, &found.log, &found.value}) *each = each->to(input.device());
  return found;
}

Tensor as_matrices(const Tensor& numbers) {
  return numbers.unsqueeze(-1).unsqueeze(-1);
}

// Saved: the input. The gradient is the matrix of cofactors, which a singular matrix has, too: with
// A = U diag(s) V it is det(U) det(V) U diag(p) V, p being the products of all other elements of s.
struct DetBackward final : Node {
  std::string_view name() const noexcept override { return "linalg.det"; }
  void backward(BackwardContext& context) override {
    const auto [u, s, vh] = svd_values(saved(0), true, true, name());
    const std::int64_t n = s.size(-1);
    // Row i of `others` is s with 1 in the place of element i.
    const Tensor one = eye(n, {.dtype = DType::kBool, .device = s.device()});
    const Tensor others = s.unsqueeze(-2).expand(batch_with(s, 1, {n, n})).masked_fill(one, 1);
    const Tensor products = n == 0 ? s : prod(others, -1);
    const Tensor sign = mul(determinants_of(u, name()).value, determinants_of(vh, name()).value);
    const Tensor cofactors = matmul(mul(u, products.unsqueeze(-2)), vh);
    context.give(0, mul(as_matrices(mul(context.grad_output(), sign)), cofactors));
  }
  // This formula inverts the matrix, which must not be singular.
  void backward_recorded(BackwardContext& context) override {
    const Tensor scale = mul(context.grad_output(), det(saved(0)));
    context.give(0, mul(as_matrices(scale), mT(inv(saved(0)))));
  }
};

struct SlogdetBackward final : Node {
  std::string_view name() const noexcept override { return "linalg.slogdet"; }
  void backward(BackwardContext& context) override {
    const Tensor inverse = inverse_of(saved(0), name());
    context.give(0, mul(as_matrices(context.grad_output()), mT(inverse)));
  }
  void backward_recorded(BackwardContext& context) override {
    context.give(0, mul(as_matrices(context.grad_output()), mT(inv(saved(0)))));
  }
};

// X of matrices B [..., n, k].
Tensor solved_matrices(const Tensor& a, const Tensor& b) {
  constexpr std::string_view kOp = "linalg.solve";
  DL_CHECK(b.dim() >= 2 && b.size(-2) == a.size(-1), kShape,
           "{}: shapes {} and {} do not fit: {} columns, but {} rows", kOp, a.sizes().str(),
           b.sizes().str(), a.size(-1), b.dim() >= 2 ? b.size(-2) : 0);
  const Shape batch = broadcast_shapes(batch_with(a, 2), batch_with(b, 2), kOp);
  Shape a_shape = batch;
  Shape b_shape = batch;
  for (const std::int64_t d : {-2, -1}) {
    a_shape.push_back(a.size(d));
    b_shape.push_back(b.size(d));
  }
  const Tensor left = a.expand(a_shape);
  const Tensor right = b.expand(b_shape);
  const Tensor result = solved(left, right, false, kOp);
  if (auto* node = record<SolveBackward>(result, left, right)) {
    node->set_grad_fn_name("LinalgSolveExBackward0");
    node->save(left);
    node->save(result);
  }
  return result;
}

}  // namespace

Tensor inv(const Tensor& input) {
  constexpr std::string_view kName = "linalg.inv";
  check_square(input, kName);
  const Tensor result = inverse_of(input, kName);
  if (auto* node = record<InvBackward>(result, input)) {
    node->set_grad_fn_name("LinalgInvExBackward0");
    node->save(result);
  }
  return result;
}

Tensor solve(const Tensor& a, const Tensor& b) {
  constexpr std::string_view kName = "linalg.solve";
  check_square(a, kName);
  check_defined(b, kName, "b");
  check_same_device(a, b, kName);
  DL_CHECK(a.dtype() == b.dtype(), kDType, "{}: A is {}, but B is {}", kName, name_of(a.dtype()),
           name_of(b.dtype()));
  const bool is_vector = b.dim() == 1 || b.sizes() == batch_with(a, 1);
  if (!is_vector) return solved_matrices(a, b);
  return dl::detail::finish_composed(solved_matrices(a, b.unsqueeze(-1)).squeeze(-1), b,
                                     "LinalgSolveExBackward0");
}

Tensor det(const Tensor& input) {
  constexpr std::string_view kName = "linalg.det";
  check_square(input, kName);
  const Tensor result = determinants_of(input, kName).value;
  if (auto* node = record<DetBackward>(result, input)) {
    node->set_grad_fn_name("LinalgDetBackward0");
    node->save(input);
  }
  return result;
}

SlogdetResult slogdet(const Tensor& input) {
  constexpr std::string_view kName = "linalg.slogdet";
  check_square(input, kName);
  const Determinants found = determinants_of(input, kName);
  if (auto* node = record<SlogdetBackward>(found.log, input)) {
    node->set_grad_fn_name("LinalgSlogdetBackward0");
    node->save(input);
  }
  return {found.sign, found.log};
}

}  // namespace dl::linalg
