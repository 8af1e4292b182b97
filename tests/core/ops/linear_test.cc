#include "core/ops/linear/linear.h"
#include "core/ops/dispatch/kernel_names.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <utility>

#include "core/autograd/engine.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

void expect_close(const Tensor& got, const std::vector<double>& wanted, double tolerance) {
  const auto a = values<double>(got);
  ASSERT_EQ(a.size(), wanted.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], wanted[i], tolerance) << "at " << i;
}

Tensor activated(const Tensor& x, Activation activation) {
  if (activation == Activation::kRelu) return relu(x);
  return activation == Activation::kGeluTanh ? gelu(x, GeluForm::kTanh) : x;
}

class ProductOf : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, ProductOf, ::testing::Values(DType::kF32, DType::kF64));

// [n, k] x [k, m], by the definition.
std::vector<double> naive(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::kF64);
  const Tensor y = b.to(DType::kF64);
  std::vector<double> result;
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    for (std::int64_t j = 0; j < b.size(1); ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < a.size(1); ++p)
        sum += x.at<double>({i, p}) * y.at<double>({p, j});
      result.push_back(sum);
    }
  }
  return result;
}

TEST_P(ProductOf, MatmulTakesAnyStrides) {
  const Tensor a = random_tensor({5, 7}, GetParam(), 1);
  const Tensor b = random_tensor({7, 3}, GetParam(), 2);
  const auto wanted = naive(a, b);
  const Tensor a_by_columns = a.t().contiguous().t();
  const Tensor b_by_columns = b.t().contiguous().t();
  for (const Tensor& left : {a, a_by_columns, strided_copy(a)}) {
    for (const Tensor& right : {b, b_by_columns, strided_copy(b)}) {
      expect_close(matmul(left, right), wanted, sum_tolerance(GetParam()));
    }
  }
  // One row of a wide matrix, and a matrix whose rows are all the same memory.
  expect_close(matmul(a.slice(0, 2, 3), b), naive(a.slice(0, 2, 3), b), sum_tolerance(GetParam()));
  const Tensor same = a.slice(0, 0, 1).expand({4, 7});
  expect_close(matmul(same, b), naive(same, b), sum_tolerance(GetParam()));
}

TEST_P(ProductOf, MatmulTakesVectorsAndBatches) {
  const Tensor a = random_tensor({2, 1, 4, 3}, GetParam(), 1);
  const Tensor b = random_tensor({5, 3, 2}, GetParam(), 2);
  const Tensor c = matmul(a, b);
  ASSERT_EQ(c.sizes(), (Shape{2, 5, 4, 2}));
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      expect_close(c.select(0, i).select(0, j), naive(a.select(0, i).select(0, 0), b.select(0, j)),
                   sum_tolerance(GetParam()));
    }
  }
  const Tensor v = random_tensor({3}, GetParam(), 3);
  EXPECT_EQ(matmul(v, v).dim(), 0);
  expect_close(matmul(a, v), values<double>(matmul(a, v.unsqueeze(1))), 0);
  EXPECT_EQ(matmul(a, v).sizes(), (Shape{2, 1, 4}));
  EXPECT_EQ(matmul(v, b).sizes(), (Shape{5, 2}));
}

TEST_P(ProductOf, MatmulOfEmptyMatricesIsZero) {
  EXPECT_EQ(values<double>(
                matmul(empty({2, 0}, {.dtype = GetParam()}), empty({0, 2}, {.dtype = GetParam()}))),
            std::vector<double>(4, 0.0));
  EXPECT_EQ(
      matmul(empty({0, 3}, {.dtype = GetParam()}), empty({3, 2}, {.dtype = GetParam()})).sizes(),
      (Shape{0, 2}));
}

TEST_P(ProductOf, MatmulGradientOfABroadcastOperandIsSummed) {
  Tensor a = random_tensor({4, 2, 3}, GetParam(), 1).requires_grad_();
  Tensor b = random_tensor({3, 5}, GetParam(), 2).requires_grad_();
  sum(matmul(a, b)).backward();
  EXPECT_EQ(a.grad().sizes(), a.sizes());
  const Tensor ones_grad = ones({8, 5}, {.dtype = GetParam()});
  expect_close(b.grad(), naive(a.detach().view({8, 3}).t(), ones_grad), sum_tolerance(GetParam()));
}

TEST_P(ProductOf, LinearEqualsTheDefinition) {
  const Tensor x = random_tensor({2, 3, 7}, GetParam(), 1);
  const Tensor w = random_tensor({5, 7}, GetParam(), 2);
  const Tensor b = random_tensor({5}, GetParam(), 3);
  const Tensor product = matmul(x, w.t());
  expect_close(linear(x, w), values<double>(product), sum_tolerance(GetParam()));
  expect_close(linear(x, w, b), values<double>(product + b), sum_tolerance(GetParam()));
  expect_close(linear(strided_copy(x), strided_copy(w), strided_copy(b)),
               values<double>(product + b), sum_tolerance(GetParam()));
  expect_close(linear(x.select(0, 0).select(0, 0), w, b),
               values<double>((product + b).select(0, 0).select(0, 0)), sum_tolerance(GetParam()));
  expect_close(linear(x, w, b, {.activation = Activation::kRelu}),
               values<double>(relu(product + b)), sum_tolerance(GetParam()));
}

TEST_P(ProductOf, LinearGradientsEqualThoseOfMatmulAndAdd) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh}) {
    Tensor x = random_tensor({2, 3, 7}, GetParam(), 1).requires_grad_();
    Tensor w = random_tensor({5, 7}, GetParam(), 2).requires_grad_();
    Tensor b = random_tensor({5}, GetParam(), 3).requires_grad_();
    const Tensor direction = random_tensor({2, 3, 5}, GetParam(), 4);
    const Tensor plain = matmul(x, w.t()) + b;
    activated(plain, activation).backward(direction);
    const auto dx = values<double>(x.grad());
    const auto dw = values<double>(w.grad());
    const auto db = values<double>(b.grad());
    for (const Tensor& leaf : {x, w, b}) leaf.zero_grad();
    linear(x, w, b, {.activation = activation}).backward(direction);
    expect_close(x.grad(), dx, sum_tolerance(GetParam()));
    expect_close(w.grad(), dw, sum_tolerance(GetParam()));
    expect_close(b.grad(), db, sum_tolerance(GetParam()));
  }
}

// Two layers; the second's backward also computes the first's activation gradient if that is not
// observable.
class LinearChain : public ::testing::TestWithParam<Activation> {
 protected:
  using Between = std::function<Tensor(const Tensor&)>;

  // Gradients of x and all parameters; `between` sees what the first layer made.
  std::vector<std::vector<double>> gradients(bool fused, DType dtype, const Between& between) {
    std::vector<Tensor> leaves;
    for (const Shape& shape : {Shape{2, 3, 7}, Shape{5, 7}, Shape{5}, Shape{4, 5}, Shape{4}}) {
      leaves.push_back(
          random_tensor(shape, DType::kF32, leaves.size() + 1).to(dtype).requires_grad_());
    }
    const Tensor first = linear(leaves[0], leaves[1], leaves[2],
                                {.activation = fused ? GetParam() : Activation::kNone});
    const Tensor hidden = between(fused ? first : activated(first, GetParam()));
    linear(hidden, leaves[3], leaves[4])
        .backward(random_tensor({2, 3, 4}, DType::kF32, 9).to(dtype));
    std::vector<std::vector<double>> result;
    for (const Tensor& leaf : leaves) result.push_back(values<double>(leaf.grad()));
    return result;
  }

  void expect_same_bits(const Between& between) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      EXPECT_EQ(gradients(true, dtype, between), gradients(false, dtype, between))
          << name_of(dtype);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Activations, LinearChain,
                         ::testing::Values(Activation::kRelu, Activation::kGeluTanh));

TEST_P(LinearChain, HasTheBitsOfSeparateOperations) {
  expect_same_bits([](const Tensor& h) { return h; });
}

TEST_P(LinearChain, HasTheSameBitsIfTheIntermediateIsUsedToo) {
  expect_same_bits([](const Tensor& h) { return h + h; });
  expect_same_bits([](const Tensor& h) { return h.view({6, 5}).view({2, 3, 5}); });
  expect_same_bits([](const Tensor& h) {
    h.register_hook([](const Tensor& gradient) { return gradient * 2; });
    return h;
  });
}

TEST_P(LinearChain, HasTheSameBitsIfTheIntermediateIsARootToo) {
  const auto gradient = [&](bool fused) {
    const Tensor x = random_tensor({3, 7}, DType::kF32, 1).requires_grad_();
    const Tensor w = random_tensor({7, 7}, DType::kF32, 2).requires_grad_();
    const Tensor h =
        fused ? linear(x, w, {}, {.activation = GetParam()}) : activated(linear(x, w), GetParam());
    const Tensor y = linear(h, w);
    const std::array<Tensor, 2> roots = {y, h};
    const std::array<Tensor, 2> directions = {ones({3, 7}), full({3, 7}, 0.3)};
    backward(roots, directions, {.retain_graph = true});
    backward(roots, directions);
    return std::pair(values<float>(x.grad()), values<float>(w.grad()));
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(LinearGradient, IsComputedInTheLeafsDestinationAndAddsThere) {
  const Tensor x = random_tensor({4, 7});
  Tensor w = random_tensor({5, 7}).requires_grad_();
  Tensor b = random_tensor({5}).requires_grad_();
  const Tensor bucket = zeros({40});
  set_grad_destination(w, bucket.slice(0, 0, 35).view({5, 7}));
  set_grad_destination(b, bucket.slice(0, 35, 40));
  sum(linear(x, w, b)).backward();
  EXPECT_EQ(w.grad().data_ptr(), bucket.data_ptr());
  const Tensor once = bucket.clone();
  sum(linear(x, w, b)).backward();
  expect_close(bucket, values<double>(once + once), 1e-5);
  w.zero_grad();
  b.zero_grad();
  sum(linear(x, w, b)).backward();
  expect_close(bucket, values<double>(once), 0);
}

TEST(LinearGradient, OfTheBiasKeepsItsPrecisionOverManyRows) {
  constexpr std::int64_t kRows = 50'000;
  constexpr std::int64_t kOut = 70;  // more than one block of columns
  const Tensor bias = zeros({kOut}, {.requires_grad = true});
  const Tensor y = linear(zeros({kRows, 1}), zeros({kOut, 1}), bias);
  const double wanted = kRows * static_cast<double>(0.1F);
  for (const int passes : {1, 2}) {  // the second adds to what is there
    y.backward(full({kRows, kOut}, 0.1), {.retain_graph = true});
    for (const double sum : values<double>(bias.grad())) {
      ASSERT_NEAR(sum, passes * wanted, 1e-5 * wanted);
    }
  }
}

TEST(ProductErrors, SayWhatCameAndWhatWasWanted) {
  const Tensor a = random_tensor({2, 3});
  EXPECT_ERROR(matmul(a, a), kShape,
               "matmul: shapes [2, 3] and [2, 3] do not fit: 3 columns, but 2 rows");
  EXPECT_ERROR(
      matmul(a, tensor(1.0F)), kShape,
      "matmul: the operands have shapes [2, 3] and [], wanted at least one dimension each");
  EXPECT_ERROR(matmul(a, Tensor()), kInvalidArgument,
               "matmul: the second operand is an undefined tensor");
  EXPECT_ERROR(matmul(a, a.t().to(DType::kF64)), kDType,
               "matmul: the first operand is float32, but the second operand is float64");
  EXPECT_ERROR(matmul(a.to(DType::kI32), a), kDType,
               "matmul: the first operand is int32, but the second operand is float32");
  EXPECT_ERROR(linear(a, random_tensor({4, 2})), kShape,
               "linear: the input has shape [2, 3], wanted [..., 2] for a weight of shape [4, 2]");
  EXPECT_ERROR(linear(a, random_tensor({4})), kShape,
               "linear: the weight has shape [4], wanted [out, in]");
  EXPECT_ERROR(linear(a, random_tensor({4, 3}), random_tensor({3})), kShape,
               "linear: the bias has shape [3], wanted [4]");
  EXPECT_ERROR(linear(a.to(DType::kF16), a), kDType,
               "linear: the input is float16, but the weight is float32");
}

}  // namespace
}  // namespace dl
