#include "core/ops/loss/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log/warn_once.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

class LossOf : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, LossOf, ::testing::Values(DType::kF32, DType::kF64));

TEST_P(LossOf, CrossEntropyEqualsTheDefinition) {
  const Tensor logits = random_tensor({4, 3}, GetParam());
  const Tensor target = tensor({2, 0, -100, 1});
  const Tensor x = logits.to(DType::kF64);
  double sum = 0;
  for (const std::int64_t n : {0, 1, 3}) {
    double total = 0;
    for (std::int64_t c = 0; c < 3; ++c) total += std::exp(x.at<double>({n, c}));
    sum += std::log(total) - x.at<double>({n, target.at<std::int64_t>({n})});
  }
  const double unit = GetParam() == DType::kF32 ? 1e-6 : 1e-14;
  EXPECT_NEAR(cross_entropy(logits, target).item<double>(), sum / 3, unit);
  EXPECT_NEAR(cross_entropy(strided_copy(logits), strided_copy(target)).item<double>(), sum / 3,
              unit);
  EXPECT_EQ(cross_entropy(logits, target).dtype(), GetParam());
}

TEST_P(LossOf, CrossEntropyGradientIsScaledByWhatComesBack) {
  Tensor logits = random_tensor({4, 3}, GetParam()).requires_grad_();
  const Tensor target = tensor({2, 0, -100, 1});
  cross_entropy(logits, target).backward();
  const auto once = values<double>(logits.grad());
  logits.zero_grad();
  (cross_entropy(logits, target) * 3).backward();
  const auto thrice = values<double>(logits.grad());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(thrice[i], 3 * once[i], 1e-6);
  EXPECT_EQ(once[6], 0.0);  // the ignored row
}

TEST_P(LossOf, MseEqualsTheDefinitionForAnyLayout) {
  const Tensor a = random_tensor({3, 4, 2, 2}, GetParam(), 1);
  const Tensor b = random_tensor({3, 4, 2, 2}, GetParam(), 2);
  const auto x = values<double>(a);
  const auto y = values<double>(b);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  const double wanted = sum / static_cast<double>(x.size());
  EXPECT_NEAR(mse_loss(a, b).item<double>(), wanted, 1e-6);
  EXPECT_NEAR(mse_loss(a.contiguous(MemoryFormat::kChannelsLast), b).item<double>(), wanted, 1e-6);
}

// The results of PyTorch's formulas for infinities and NaN.
class LossEdges : public ::testing::TestWithParam<DType> {
 protected:
  static Tensor leaf(std::initializer_list<double> numbers) {
    return tensor(numbers, {.dtype = GetParam()}).requires_grad_();
  }
};
INSTANTIATE_TEST_SUITE_P(DTypes, LossEdges, ::testing::Values(DType::kF32, DType::kF64));

TEST_P(LossEdges, AnIgnoredRowShowsItsNaN) {
  const Tensor logits =
      tensor({{NAN, 1.0}, {0.5, 1.0}, {2.0, 1.0}}, {.dtype = GetParam()}).requires_grad_();
  const Tensor loss = cross_entropy(logits, tensor({-100, 1, -100}));
  EXPECT_NEAR(loss.item<double>(), 0.4740769841801067, 1e-6);
  loss.backward();
  const auto grad = values<double>(logits.grad());
  EXPECT_TRUE(std::isnan(grad[0]) && std::isnan(grad[1]));
  EXPECT_NEAR(grad[2], 0.3775406687981454, 1e-6);
  EXPECT_EQ(grad[4], 0);
}

TEST_P(LossEdges, BceGradientOfTheTargetHasNoBounds) {
  const Tensor t = leaf({0.5, 0.5, 0.5});
  binary_cross_entropy(tensor({0.0, 1.0, 0.3}, {.dtype = GetParam()}), t,
                       {.reduction = Reduction::kSum})
      .backward();
  const auto grad = values<double>(t.grad());
  EXPECT_EQ(grad[0], INFINITY);
  EXPECT_EQ(grad[1], -INFINITY);
  EXPECT_NEAR(grad[2], 0.8472978603872036, 1e-6);
}

TEST_P(LossEdges, KlDivGradientOfATargetOfZeroIsNaN) {
  const Tensor t = leaf({0.0, 0.5});
  kl_div(tensor({-1.0, -1.0}, {.dtype = GetParam()}), t, {.reduction = Reduction::kSum}).backward();
  const auto grad = values<double>(t.grad());
  EXPECT_TRUE(std::isnan(grad[0]));
  EXPECT_NEAR(grad[1], 1.3068528194400546, 1e-6);
}

TEST_P(LossEdges, KlDivTakesANumberForABatchOfOne) {
  const Tensor loss =
      kl_div(tensor(-1.0, {.dtype = GetParam()}), tensor(0.5, {.dtype = GetParam()}),
             {.reduction = Reduction::kBatchMean});
  EXPECT_NEAR(loss.item<double>(), 0.15342640972002736, 1e-6);
}

TEST_P(LossEdges, SmoothedCrossEntropyWithoutWeightIsNaN) {
  const Tensor logits = tensor({{1.0, 2.0}}, {.dtype = GetParam()});
  const Tensor weight = tensor({0.0, 1.0}, {.dtype = GetParam()});
  EXPECT_TRUE(
      std::isnan(cross_entropy(logits, tensor({0}), {.weight = weight, .label_smoothing = 0.1})
                     .item<double>()));
  const Tensor sum =
      cross_entropy(logits, tensor({0}),
                    {.weight = weight, .reduction = Reduction::kSum, .label_smoothing = 0.1});
  EXPECT_NEAR(sum.item<double>(), 0.015663084375911143, 1e-6);
}

TEST_P(LossEdges, HingeEmbeddingTakesInfinities) {
  const Tensor x = leaf({-INFINITY, -INFINITY, INFINITY});
  const Tensor y = hinge_embedding_loss(x, tensor({1.0, -1.0, 1.0}, {.dtype = GetParam()}),
                                        {.reduction = Reduction::kNone});
  EXPECT_EQ(values<double>(y), (std::vector<double>{-INFINITY, INFINITY, INFINITY}));
  y.backward(ones_like(y));
  EXPECT_EQ(values<double>(x.grad()), (std::vector<double>{1, -1, 1}));
}

TEST_P(LossEdges, ClassesMayBeBytes) {
  const Tensor logits = tensor({{0.2, 1.0}, {0.5, 1.0}}, {.dtype = GetParam()});
  const Tensor target = tensor({0, 1}).to(DType::kU8);
  EXPECT_NEAR(cross_entropy(logits, target).item<double>(), 0.8225888250639423, 1e-6);
  EXPECT_NEAR(nll_loss(logits, target).item<double>(), -0.6, 1e-6);
}

TEST(LossOf, OfNothingIsNaN) {
  EXPECT_TRUE(
      std::isnan(cross_entropy(empty({0, 3}), empty({0}, {.dtype = DType::kI64})).item<float>()));
  EXPECT_TRUE(std::isnan(cross_entropy(zeros({1, 3}), tensor({-100})).item<float>()));
  EXPECT_TRUE(std::isnan(mse_loss(empty({0}), empty({0})).item<float>()));
}

TEST(LossErrors, NameTheFirstBadIndex) {
  EXPECT_ERROR(
      cross_entropy(zeros({4, 10}), tensor({0, -100, 12, -1})), kIndex,
      "cross_entropy: target[2] is 12, wanted a class in [0, 10) or -100 for a row to ignore");
}

TEST(LossErrors, SayWhatCameAndWhatWasWanted) {
  const Tensor x = zeros({4, 3});
  EXPECT_ERROR(cross_entropy(zeros({}), tensor({0})), kShape,
               "cross_entropy: the logits have shape [], wanted [N, C], [N, C, d...] or [C]");
  EXPECT_ERROR(cross_entropy(zeros({4}), tensor({0})), kShape,
               "cross_entropy: the target has shape [1], wanted [] for logits of shape [4]");
  EXPECT_ERROR(cross_entropy(x, tensor({0, 1})), kShape,
               "cross_entropy: the target has shape [2], wanted [4] for logits of shape [4, 3]");
  EXPECT_ERROR(nll_loss(zeros({1, 3, 2}), tensor({{0, 3}})), kIndex,
               "nll_loss: target[0, 1] is 3, wanted a class in [0, 3) or -100 for a row to ignore");
  EXPECT_ERROR(cross_entropy(x, tensor({0, 1, 2, 0}), {.weight = ones({4})}), kShape,
               "cross_entropy: the weight has shape [4], wanted [3], one of each class");
  EXPECT_ERROR(cross_entropy(x, tensor({0, 1, 2, 0}), {.label_smoothing = 1.5}), kInvalidArgument,
               "cross_entropy: label_smoothing is 1.5, wanted a share, 0 to 1");
  EXPECT_ERROR(cross_entropy(x, tensor({0, 1, 2, 0}), {.reduction = Reduction::kBatchMean}),
               kInvalidArgument,
               "cross_entropy: the reduction is kBatchMean, which only kl_div has");
  EXPECT_ERROR(cross_entropy(x, x, {.ignore_index = 1}), kInvalidArgument,
               "cross_entropy: ignore_index is 1, but the target holds probabilities, not classes");
  EXPECT_ERROR(
      cross_entropy(x, zeros({4})), kShape,
      "cross_entropy: the target, probabilities, has shape [4], wanted the logits' [4, 3]");
  EXPECT_ERROR(cross_entropy(x, zeros({4}, {.dtype = DType::kI32})), kDType,
               "cross_entropy: the target is int32, wanted int64 class numbers");
  EXPECT_ERROR(cross_entropy(zeros({2, 3}), zeros({2, 3}, {.dtype = DType::kI64})), kDType,
               "cross_entropy: the target has the logits' shape [2, 3], so it holds probabilities, "
               "but it is int64, wanted float32; use target.to(logits.dtype()), or give class "
               "numbers");
  EXPECT_ERROR(cross_entropy(x.to(DType::kI32), tensor({0, 1, 2, 0})), kDType,
               "cross_entropy: int32 is not supported; wanted a floating dtype");
  EXPECT_ERROR(cross_entropy(x, Tensor()), kInvalidArgument,
               "cross_entropy: the target is an undefined tensor");
  EXPECT_ERROR(
      mse_loss(x, zeros({3, 4})), kShape,
      "mse_loss: the shapes [4, 3] and [3, 4] cannot be broadcast together: 4 against 3 in "
      "dimension 0");
  EXPECT_ERROR(
      binary_cross_entropy(x, zeros({3})), kShape,
      "binary_cross_entropy: the input has shape [4, 3], the target [3]; wanted one shape");
  EXPECT_ERROR(binary_cross_entropy(x, add(x, 1.5)), kInvalidArgument,
               "binary_cross_entropy: element 0 of the target is no probability, 0 to 1; "
               "binary_cross_entropy_with_logits takes any number");
  EXPECT_ERROR(binary_cross_entropy_with_logits(x, x, {.pos_weight = ones({4})}), kShape,
               "binary_cross_entropy_with_logits: the shapes [4] and [4, 3] cannot be broadcast "
               "together: 3 against 4 in dimension 1");
  EXPECT_ERROR(l1_loss(x, x, {Reduction::kBatchMean}), kInvalidArgument,
               "l1_loss: the reduction is kBatchMean, which only kl_div has");
  EXPECT_ERROR(huber_loss(x, x, {.delta = 0}), kInvalidArgument,
               "huber_loss: delta is 0, wanted more than 0");
  EXPECT_ERROR(mse_loss(x.to(DType::kI64), x.to(DType::kI32)), kDType,
               "mse_loss: int64 is not supported; wanted a floating dtype");
  EXPECT_ERROR(binary_cross_entropy(x, x.to(DType::kF64)), kDType,
               "binary_cross_entropy: the target is float64, wanted float32; convert it with to()");
  EXPECT_ERROR(binary_cross_entropy_with_logits(x, x.to(DType::kI64)), kDType,
               "binary_cross_entropy_with_logits: the target is int64, wanted a floating dtype; "
               "convert it with to()");
}

// As in PyTorch: the loss in the common dtype, gradients in those of the arguments.
TEST(Loss, OfTwoDtypesIsComputedInTheCommonOne) {
  struct Case {
    DType input, target, loss;
  };
  const std::vector<Case> cases{
      {DType::kF32, DType::kI64, DType::kF32},  {DType::kF32, DType::kF64, DType::kF64},
      {DType::kF64, DType::kF32, DType::kF64},  {DType::kF16, DType::kI64, DType::kF16},
      {DType::kF16, DType::kBF16, DType::kF32}, {DType::kF32, DType::kBool, DType::kF32},
      {DType::kI64, DType::kF32, DType::kF32}};
  const auto losses = {
      std::function([](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }),
      std::function([](const Tensor& x, const Tensor& y) {
        return mse_loss(x, y, {Reduction::kNone}).sum() / 3.0;
      }),
      std::function([](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }),
      std::function([](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); }),
      std::function([](const Tensor& x, const Tensor& y) { return huber_loss(x, y); }),
      std::function(
          [](const Tensor& x, const Tensor& y) { return cosine_similarity(x, y, {.dim = 0}); })};
  const Tensor numbers = tensor({2.0, -1.0, 0.5});
  const Tensor targets = tensor({1.0, 0.0, 3.0});
  for (const Case& each : cases) {
    SCOPED_TRACE(std::string(name_of(each.input)) + " and " + std::string(name_of(each.target)));
    for (const auto& loss : losses) {
      Tensor x = numbers.to(each.input).clone();
      Tensor y = targets.to(each.target).clone();
      Tensor wide_x = x.to(DType::kF64).clone();
      Tensor wide_y = y.to(DType::kF64).clone();
      for (Tensor* tensor : {&x, &wide_x}) {
        if (is_floating(x.dtype())) tensor->requires_grad_();
      }
      for (Tensor* tensor : {&y, &wide_y}) {
        if (is_floating(y.dtype())) tensor->requires_grad_();
      }
      const Tensor result = loss(x, y);
      const Tensor wanted = loss(wide_x, wide_y);
      EXPECT_EQ(result.dtype(), each.loss);
      EXPECT_NEAR(result.item<double>(), wanted.item<double>(), 2e-3);
      result.backward();
      wanted.backward();
      for (const auto& [got, reference] : {std::pair(x, wide_x), std::pair(y, wide_y)}) {
        if (!is_floating(got.dtype())) continue;
        EXPECT_EQ(got.grad().dtype(), got.dtype());
        expect_near(got.grad(), values<double>(reference.grad()), 4e-3);
      }
    }
  }
}

TEST(Loss, OfProbabilitiesTakesWeightsOfAnyDtype) {
  const Tensor x = tensor({0.25, 0.5});
  const Tensor y = tensor({0.0, 1.0});
  const Tensor weight = tensor({2, 3});
  const Tensor wanted = binary_cross_entropy_with_logits(x, y, {.weight = weight.to(DType::kF32)});
  EXPECT_EQ(binary_cross_entropy_with_logits(x, y, {.weight = weight}).item<float>(),
            wanted.item<float>());
  EXPECT_EQ(binary_cross_entropy_with_logits(x, y, {.weight = weight.to(DType::kF64)}).dtype(),
            DType::kF32);
  EXPECT_EQ(binary_cross_entropy_with_logits(x, y.to(DType::kF64)).dtype(), DType::kF64);
  EXPECT_EQ(kl_div(x, y.to(DType::kF64)).dtype(), DType::kF64);
}

// Like PyTorch's warning: once for two shapes, and only if PyTorch warns.
TEST(Loss, WarnsOfShapesThatAreBroadcast) {
  detail::forget_written_lines();
  const Tensor column = ones({5, 1});
  const Tensor row = zeros({5});
  const auto log_of = [&](const auto& loss) {
    ::testing::internal::CaptureStderr();
    loss(column, row);
    loss(column, row);
    loss(column, zeros({5, 1}));
    const std::string log = ::testing::internal::GetCapturedStderr();
    return log.substr(std::min(log.size(), log.find("] ") + 2));
  };
  const auto text = [](const std::string& op) {
    return op +
           ": the target's shape [5] differs from the input's [5, 1], and both are broadcast; this "
           "is likely a mistake, give them one shape\n";
  };
  EXPECT_EQ(log_of([](const Tensor& a, const Tensor& b) { mse_loss(a, b); }), text("mse_loss"));
  EXPECT_EQ(log_of([](const Tensor& a, const Tensor& b) { l1_loss(a, b); }), text("l1_loss"));
  EXPECT_EQ(log_of([](const Tensor& a, const Tensor& b) { smooth_l1_loss(a, b); }),
            text("smooth_l1_loss"));
  EXPECT_EQ(log_of([](const Tensor& a, const Tensor& b) { huber_loss(a, b); }), text("huber_loss"));
  EXPECT_EQ(log_of([](const Tensor& a, const Tensor& b) { kl_div(a, b); }), "");
}

}  // namespace
}  // namespace dl
