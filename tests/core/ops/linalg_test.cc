// core/ops/linalg beside PyTorch (tests/parity/arrays/linalg.safetensors), the gradient check, what
// decompositions promise, and errors.
#include "core/ops/linalg/linalg.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "core/autograd/gradcheck.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/linalg/lapack.h"
#include "core/ops/linear/linear.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/core/ops/composed_cases.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::testing {
namespace {

using Inputs = std::vector<Tensor>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Tensor well_posed(const Tensor& x) {
  return x + 3 * eye(x.size(-1), {.dtype = x.dtype()});
}

// The inputs are multiples of one number modulo another, and so their matrices of rank 2.
Tensor uneven(const Tensor& x) {
  return x + sin(5 * x);
}

Tensor positive(const Tensor& x) {
  return matmul(x, x.mT()) + eye(x.size(-1), {.dtype = x.dtype()});
}

// What does not depend on the vectors' signs.
Tensor outer_of_svd(const Tensor& x, bool full = false) {
  const auto [all_u, s, all_vh] = linalg::svd(x, {.full_matrices = full});
  const Tensor u = all_u.narrow(-1, 0, s.size(-1));
  const Tensor vh = all_vh.narrow(-2, 0, s.size(-1));
  return matmul(u.pow(2) * s.unsqueeze(-2), vh.pow(2)) + matmul(u.pow(3), vh.pow(3));
}

Tensor outer_of_qr(const Tensor& x, std::string_view mode = "reduced") {
  const auto [q, r] = linalg::qr(x, mode);
  return matmul(q.pow(2), r.pow(2)) + matmul(q.pow(3), r.pow(3));
}

// clang-format off
const std::vector<ComposedCase>& cases() {
  using I = const Inputs&;
  static const std::vector<ComposedCase> all{
      {"inv", [](I in) { return well_posed(in[0]).inverse(); }},
      {"solve", [](I in) { return linalg::solve(well_posed(in[0]), in[1]); }},
      {"solve of a vector", [](I in) { return linalg::solve(well_posed(in[0]), in[1]); }},
      {"solve of vectors", [](I in) { return linalg::solve(well_posed(in[0]), in[1]); }},
      {"solve with broadcasting", [](I in) { return linalg::solve(well_posed(in[0]), in[1]); }},
      {"det", [](I in) { return uneven(in[0]).det(); }},
      {"slogdet", [](I in) { return linalg::slogdet(-well_posed(in[0])).logabsdet * linalg::slogdet(-well_posed(in[0])).sign; }},
      {"cholesky", [](I in) { return linalg::cholesky(positive(in[0])); }},
      {"cholesky, upper", [](I in) { return linalg::cholesky(positive(in[0]), {.upper = true}); }},
      {"qr", [](I in) { return outer_of_qr(uneven(in[0])); }},
      {"qr of wide matrices", [](I in) { return outer_of_qr(uneven(in[0])); }},
      {"qr, complete", [](I in) { return outer_of_qr(uneven(in[0]), "complete"); }},
      {"qr, r", [](I in) { return linalg::qr(in[0].detach(), "r").r.abs(); }},
      {"svd", [](I in) { return outer_of_svd(uneven(in[0])); }},
      {"svd of wide matrices", [](I in) { return outer_of_svd(uneven(in[0])); }},
      {"svd with full matrices", [](I in) { return outer_of_svd(uneven(in[0]), true); }},
      {"svdvals", [](I in) { return linalg::svdvals(uneven(in[0])); }},
      {"vector_norm", [](I in) { return linalg::vector_norm(in[0], 3, {0, 2}); }},
      {"norm", [](I in) { return linalg::norm(in[0]); }},
      {"norm of a matrix", [](I in) { return linalg::norm(uneven(in[0]), 1); }},
      {"norm of vectors", [](I in) { return linalg::norm(in[0], 1, 1); }},
      {"matrix_norm", [](I in) { return linalg::matrix_norm(in[0], "fro", {0, 2}, {.keepdim = true}); }},
      {"matrix_norm nuc", [](I in) { return linalg::matrix_norm(uneven(in[0]), "nuc", {2, 0}); }},
      {"matrix_norm 1", [](I in) { return linalg::matrix_norm(uneven(in[0]), 1, {2, 0}); }},
      {"matrix_norm -1", [](I in) { return linalg::matrix_norm(uneven(in[0]), -1, {2, 0}); }},
      {"matrix_norm 2", [](I in) { return linalg::matrix_norm(uneven(in[0]), 2, {2, 0}); }},
      {"matrix_norm -2", [](I in) { return linalg::matrix_norm(uneven(in[0]), -2, {2, 0}); }},
      {"matrix_norm inf", [](I in) { return linalg::matrix_norm(uneven(in[0]), kInfinite, {2, 0}); }},
      {"matrix_norm -inf", [](I in) { return linalg::matrix_norm(uneven(in[0]), -kInfinite, {2, 0}); }}};
  return all;
}
// clang-format on

TEST(Linalg, AgreesWithPyTorch) {
  const parity::Arrays arrays("linalg");
  std::set<std::string> names;
  for (const ComposedCase& c : cases()) {
    names.insert(c.name);
    ASSERT_TRUE(arrays.has(std::string(c.name) + ".y")) << c.name << ": run make_arrays.py";
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      for (const bool dense : {true, false}) check_composed(c, arrays, dtype, dense, {}, 100);
    }
  }
  for (const std::string& array : arrays.names()) {
    EXPECT_TRUE(names.contains(array.substr(0, array.rfind('.')))) << array << " has no case";
  }
}

TEST(Linalg, GradientsPassTheCheck) {
  const parity::Arrays arrays("linalg");
  for (const ComposedCase& c : cases()) {
    if (!arrays.has(std::string(c.name) + ".g0")) continue;
    Inputs inputs = inputs_of(arrays, c.name, DType::kF64);
    for (Tensor& x : inputs) x.requires_grad_();
    EXPECT_NO_THROW(gradcheck(c.name, c.f, inputs)) << c.name;
    check_second(c.name, c.f, inputs);
  }
}

// Some 4 x 3 and 3 x 4 numbers.
Tensor some(std::int64_t rows, std::int64_t columns, DType dtype = DType::kF64) {
  return ((arange(2 * rows * columns) * 7 % 11).to(dtype) - 5).view({2, rows, columns});
}

void expect_close(const Tensor& got, const Tensor& wanted, double tolerance = 1e-12) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  expect_near(got, values<double>(wanted), tolerance);
}

TEST(Linalg, FactorsMultiplyToTheMatrix) {
  for (const auto& [m, n] : {std::pair{4, 3}, {3, 4}, {3, 3}}) {
    const Tensor a = some(m, n);
    for (const bool full : {true, false}) {
      const auto [u, s, vh] = linalg::svd(a, {.full_matrices = full});
      EXPECT_EQ(u.sizes(), (Shape{2, m, full ? m : 3}));
      EXPECT_EQ(vh.sizes(), (Shape{2, full ? n : 3, n}));
      expect_close(matmul(u.narrow(-1, 0, 3) * s.unsqueeze(-2), vh.narrow(-2, 0, 3)), a);
      expect_close(matmul(u.mT(), u), eye(u.size(-1), {.dtype = a.dtype()}).expand({2, -1, -1}));
      EXPECT_TRUE(linalg::svdvals(a).allclose(s));
    }
    for (const std::string_view mode : {"reduced", "complete"}) {
      const auto [q, r] = linalg::qr(a, mode);
      EXPECT_EQ(q.size(-1), mode == "complete" ? m : 3);
      expect_close(matmul(q, r), a);
      expect_close(matmul(q.mT(), q), eye(q.size(-1), {.dtype = a.dtype()}).expand({2, -1, -1}));
      EXPECT_TRUE(r.equal(r.triu()));
    }
    const auto only = linalg::qr(a, "r");
    EXPECT_FALSE(only.q.defined());
    expect_close(only.r, linalg::qr(a).r);
  }
  const Tensor l = linalg::cholesky(positive(some(3, 3)));
  EXPECT_TRUE(l.equal(l.tril()));
  expect_close(matmul(l, l.mT()), positive(some(3, 3)));
}

TEST(Linalg, EmptyMatricesAndBatchesHaveEmptyResults) {
  const Tensor none = zeros({0, 3, 3});
  EXPECT_EQ(linalg::inv(none).sizes(), (Shape{0, 3, 3}));
  EXPECT_EQ(linalg::det(none).sizes(), (Shape{0}));
  const Tensor empty_matrix = zeros({0, 0});
  EXPECT_EQ(linalg::det(empty_matrix).item<float>(), 1);
  EXPECT_EQ(linalg::solve(empty_matrix, zeros({0, 2})).sizes(), (Shape{0, 2}));
  const auto [u, s, vh] = linalg::svd(zeros({2, 0}));
  EXPECT_TRUE(u.equal(eye(2)));
  EXPECT_EQ(s.sizes(), (Shape{0}));
  EXPECT_EQ(vh.sizes(), (Shape{0, 0}));
  EXPECT_TRUE(linalg::qr(zeros({2, 0}), "complete").q.equal(eye(2)));
}

TEST(Linalg, InputsStayAsTheyAre) {
  const Tensor a = positive(some(3, 3)).mT().contiguous().mT();
  const Tensor before = a.clone();
  linalg::inv(a);
  linalg::cholesky(a);
  linalg::svd(a);
  linalg::qr(a);
  linalg::det(a);
  EXPECT_TRUE(a.equal(before));
}

// The matrix of cofactors, also of one that turns the space over.
TEST(Linalg, TheDeterminantOfASingularMatrixHasAGradient) {
  const Tensor a = diag(tensor({2., -3., 0.}, {.dtype = DType::kF64})).requires_grad_();
  const Tensor d = linalg::det(a);
  EXPECT_EQ(d.item<double>(), 0);
  d.backward();
  expect_near(a.grad(), {0, 0, 0, 0, 0, 0, 0, 0, -6}, 1e-12);
}

TEST(Linalg, ASingularMatrixHasNoDeterminantButASign) {
  const auto [sign, log] = linalg::slogdet(ones({2, 2}));
  EXPECT_EQ(sign.item<float>(), 0);
  EXPECT_EQ(log.item<float>(), -std::numeric_limits<float>::infinity());
}

// torch.linalg.solve takes B as vectors or as matrices once: [n, 1] of a vector [n] is no vector.
TEST(Linalg, SolveTakesAVectorAsOne) {
  const auto twos = [](const Shape& shape) { return full(shape, 2.0); };
  for (const Shape& batch : {Shape{1, 1, 1}, Shape{3, 1, 1}}) {
    const Tensor x = linalg::solve(twos(batch), ones({1}));
    EXPECT_EQ(x.sizes(), (Shape{batch[0], 1}));
    EXPECT_EQ(x[0].item(), 0.5);
  }
  EXPECT_EQ(linalg::solve(twos({2, 1, 1}), ones({2, 1})).sizes(), (Shape{2, 1}));
  EXPECT_ERROR(linalg::solve(twos({3, 1, 1}), ones({3})), kShape,
               "linalg.solve: shapes [3, 1, 1] and [3, 1] do not fit: 1 columns, but 3 rows");
}

TEST(Linalg, ErrorsNameWhatIsWrong) {
  const Tensor a = some(3, 3);
  EXPECT_ERROR(linalg::inv(some(3, 4)), kShape,
               "linalg.inv: the input has shape [2, 3, 4], wanted square matrices [..., n, n]");
  EXPECT_ERROR(linalg::svd(ones({3})), kShape,
               "linalg.svd: the input has shape [3], wanted matrices [..., m, n]");
  EXPECT_ERROR(linalg::det(ones({2, 2}, {.dtype = DType::kF16})), kDType,
               "linalg.det: float16 is not supported; wanted float32 or float64");
  EXPECT_ERROR(linalg::inv(stack({eye(2), ones({2, 2})})), kInvalidArgument,
               "linalg.inv: matrix 1 of the batch is singular: pivot 1 is zero");
  EXPECT_ERROR(linalg::cholesky(tensor({{1., 2.}, {2., 1.}})), kInvalidArgument,
               "linalg.cholesky: matrix 0 of the batch is not positive definite: its leading minor "
               "of order 2 is not positive");
  EXPECT_ERROR(linalg::svd(full({2, 2}, kInfinite)), kInvalidArgument,
               "linalg.svd: matrix 0 of the batch has an infinity or NaN");
  EXPECT_ERROR(linalg::solve(a, ones({2, 4, 1}, {.dtype = DType::kF64})), kShape,
               "linalg.solve: shapes [2, 3, 3] and [2, 4, 1] do not fit: 3 columns, but 4 rows");
  EXPECT_ERROR(linalg::solve(a, ones({3})), kDType, "linalg.solve: A is float64, but B is float32");
  const Tensor no_numbers = full({2, 2}, kInfinite).requires_grad_();
  EXPECT_ERROR(linalg::det(no_numbers).backward(), kInvalidArgument,
               "linalg.det: matrix 0 of the batch has an infinity or NaN");
  EXPECT_ERROR(linalg::qr(a, "full"), kInvalidArgument,
               "linalg.qr: mode is \"full\", wanted \"reduced\", \"complete\" or \"r\"");
  EXPECT_ERROR(linalg::qr(some(4, 3).requires_grad_(), "complete"), kNotImplemented,
               "linalg.qr: mode \"complete\" has no gradient for a matrix of shape [2, 4, 3]; use "
               "\"reduced\"");
  EXPECT_ERROR(linalg::matrix_norm(a, 3), kInvalidArgument,
               "linalg.matrix_norm: ord is 3, wanted 1, 2, infinity, one of these with -, \"fro\" "
               "or \"nuc\"");
  EXPECT_ERROR(linalg::norm(a, 2), kShape,
               "linalg.norm: 3 dimensions, wanted one for a vector's norm or two for a matrix's");
}

TEST(Linalg, WithoutALibraryTheErrorNamesThePackage) {
  try {
    lapack::detail::open_one_of("linalg.inv", {"libnowhere.so.3"});
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(
        "linalg.inv needs LAPACK (Debian's package liblapack3 or libopenblas0), which cannot be "
        "opened: libnowhere.so.3: "))
        << text;
  }
}

}  // namespace
}  // namespace dl::testing
