// Results and gradients at the edges: at bounds, of NaN and infinities, of batches without values,
// of numbers beside tensors without dimensions. The numbers are PyTorch's; tests/parity/fuzz found
// the cases that differed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor leaf(const Numbers& numbers) {
  return tensor(numbers, {.dtype = DType::kF64}).requires_grad_();
}

void expect_numbers(const Tensor& got, const Numbers& wanted) {
  const Numbers numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << "[" << i << "] is " << numbers[i];
    } else {
      EXPECT_DOUBLE_EQ(numbers[i], wanted[i]) << "[" << i << "]";
    }
  }
}

TEST(Edges, ClampHasNoSlopeAtItsBounds) {
  const Tensor x = leaf({-1.5, 2, kNaN, kInf, -kInf, 0});
  const Tensor y = clamp(x, -1.5, 2);
  expect_numbers(y.detach(), {-1.5, 2, kNaN, 2, -1.5, 0});
  sum(y).backward();
  expect_numbers(x.grad(), {0, 0, 0, 0, 0, 1});
}

TEST(Edges, ClampWithoutABoundHasASlopeAtInfinity) {
  Tensor x = leaf({kInf, -kInf, 2, 3, kNaN});
  sum(clamp_min(x, 2)).backward();
  expect_numbers(x.grad(), {1, 0, 0, 1, 0});
  x.zero_grad();
  sum(clamp_max(x, 2)).backward();
  expect_numbers(x.grad(), {0, 1, 0, 0, 0});
  Tensor floats = tensor({kInf, -kInf, 2.0, 3.0}, {.requires_grad = true});
  sum(clamp_min(floats, 2)).backward();
  EXPECT_EQ(values<float>(floats.grad()), (std::vector<float>{1, 0, 0, 1}));
}

TEST(Edges, ClampToNothingIsACopy) {
  const Tensor x = tensor({5, 200}, {.dtype = DType::kU8});
  clamp(x, -1).fill_(0);
  EXPECT_EQ(values<int>(x), (std::vector<int>{5, 200}));
}

TEST(Edges, TheNormOfOneNumberIsItsMagnitude) {
  for (const double p : {2.0, 3.0, 0.5, -1.0}) {
    Tensor x = tensor({-1e-30, 1e-25}).requires_grad_();
    const Tensor y = norm(x.view({2, 1}), p, {1});
    EXPECT_EQ(values<float>(y.detach()), (std::vector<float>{1e-30F, 1e-25F})) << p;
  }
  const Tensor x = tensor({-1e-30}).requires_grad_();
  norm(x).backward();
  EXPECT_EQ(x.grad().item<float>(), -1);
}

TEST(Edges, TheNormOfNaNHasNoSlope) {
  for (const double p : {2.0, 3.5}) {
    const Tensor x = tensor({kNaN}).requires_grad_();
    norm(x, p).backward();
    EXPECT_TRUE(std::isnan(x.grad().item<float>()));
  }
}

TEST(Edges, TheMedianOfNoIntegersIsTheLeastOrZero) {
  EXPECT_EQ(median(zeros({0}, {.dtype = DType::kI64})).item<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(nanmedian(zeros({0}, {.dtype = DType::kI32})).item<std::int32_t>(), INT32_MIN);
  EXPECT_EQ(median(zeros({0}, {.dtype = DType::kI16})).item<std::int16_t>(), 0);
}

TEST(Edges, ClampByOneBoundKeepsTheSlopeOfAnInfiniteElement) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {  // a loop of scalars, and vectors
    const Tensor x = tensor(Numbers{kInf, -kInf, kNaN, 0, 1, -1}, {.dtype = dtype}).repeat(9);
    const Tensor above = x.clone().requires_grad_();
    sum(clamp_min(above, 0)).backward();
    expect_numbers(above.grad().narrow(0, 48, 6), {1, 0, 0, 0, 1, 0});
    const Tensor below = x.clone().requires_grad_();
    sum(clamp_max(below, 0)).backward();
    expect_numbers(below.grad().narrow(0, 48, 6), {0, 1, 0, 0, 0, 1});
  }
}

TEST(Edges, Atan2HasNoSlopeAtTheOrigin) {
  const Tensor a = leaf({0, -0.0, 0, 0, 1, 3e200, 1e-200});
  const Tensor b = leaf({0, 0, -0.0, 2, 0, 4e200, 0});
  sum(atan2(a, b)).backward();
  expect_numbers(a.grad(), {0, 0, 0, .5, 0, .16e-200, 0});
  expect_numbers(b.grad(), {0, 0, 0, 0, -1, -.12e-200, -1e200});
}

TEST(Edges, NormsBelowOneOfInfinityHaveNoSlope) {
  for (const double p : {.5, -1.0}) {
    const Tensor x = leaf({kInf, -kInf});
    norm(x, p).backward();
    expect_numbers(x.grad(), {kNaN, kNaN});
    const Tensor zero = leaf({0, 0});
    norm(zero, p).backward();
    expect_numbers(zero.grad(), {0, 0});
  }
}

TEST(Edges, BinaryCrossEntropyNeverMultipliesByZero) {
  const Tensor x = leaf({-kInf, 0, 1, -2});
  const Tensor t = leaf({1, kInf, kInf, kInf});
  const Tensor y = binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::kNone});
  expect_numbers(y.detach(), {kNaN, kNaN, -kInf, kInf});
  sum(y).backward();
  expect_numbers(t.grad(), {kInf, 0, -1, 2});
  expect_numbers(x.grad(), {-1, -kInf, -kInf, -kInf});
}

TEST(Edges, ClampByTensorsSharesAGradientBetweenEquals) {
  const Tensor x = leaf({1, 1, 1, 0, 5, kNaN, 1, 3, 2, 2, 1, 0, 2});
  const Tensor low = leaf({1, 0, 1, 2, 0, 0, kNaN, 2, 2, 2, 0, 1, 1});
  const Tensor high = leaf({2, 1, 1, 1, 1, 1, 2, 1, 2, 1, kNaN, 1, 1});
  sum(clamp(x, low, high)).backward();
  expect_numbers(x.grad(), {.5, .5, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0});
  expect_numbers(low.grad(), {.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  expect_numbers(high.grad(), {0, .5, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1});
}

TEST(Edges, ClampOfIntegersTakesBoundsBeyondTheirRange) {
  const Tensor x = tensor({5, 200}, {.dtype = DType::kU8});
  EXPECT_EQ(values<int>(clamp(x, -1)), (std::vector<int>{5, 200}));
  EXPECT_EQ(values<int>(clamp(x, {}, 300)), (std::vector<int>{5, 200}));
  EXPECT_EQ(values<int>(clamp(x, -1, 7)), (std::vector<int>{5, 7}));
  EXPECT_ERROR(clamp(x, 300), kInvalidArgument,
               "clamp: uint8 has numbers from 0 to 255, wanted bounds among them");
  EXPECT_ERROR(clamp(x, {}, -1), kInvalidArgument,
               "clamp: uint8 has numbers from 0 to 255, wanted bounds among them");
}

TEST(Edges, NumbersKeepTheDtypeOfATensorWithoutDimensions) {
  const Tensor x = tensor(2.5, {.dtype = DType::kBF16});
  for (const Tensor& y : {fmod(x, 2), remainder(x, -2), floor_divide(x, 2), pow(2, x), pow(x, 2)}) {
    EXPECT_EQ(y.dtype(), DType::kBF16) << y.str();
  }
  EXPECT_EQ(fmod(x, 2).item<double>(), 0.5);
  EXPECT_EQ(remainder(x, -2).item<double>(), -1.5);
  EXPECT_EQ(floor_divide(x, 2).item<double>(), 1);
  EXPECT_EQ(fmod(tensor(7), 2.5).dtype(), DType::kF32);
  EXPECT_ERROR(fmod(tensor({1, 2}), 0), kInvalidArgument,
               "fmod: the divisor is 0 somewhere, by which integers cannot be divided; convert one "
               "operand to a floating dtype");
}

TEST(Edges, LossesOfNaNHaveNoSlope) {
  for (const bool smooth : {true, false}) {
    const Tensor x = leaf({kNaN, kInf, kInf, 1});
    const Tensor t = leaf({0, 0, kInf, 1});
    (smooth ? smooth_l1_loss(x, t) : huber_loss(x, t)).backward();
    expect_numbers(x.grad(), {kNaN, .25, kNaN, 0});
    expect_numbers(t.grad(), {kNaN, -.25, kNaN, 0});
  }
  const Tensor x = leaf({kNaN, 2});
  smooth_l1_loss(x, zeros({2}, {.dtype = DType::kF64}), {.beta = 0}).backward();
  expect_numbers(x.grad(), {0, .5});
}

TEST(Edges, CosineSimilarityOfShortVectors) {
  const Tensor a = leaf({.1, .2});
  const Tensor b = leaf({.3, .4});
  const Tensor y = cosine_similarity(a, b, {.dim = 0, .eps = .5});
  EXPECT_DOUBLE_EQ(y.item<double>(), .44);
  y.backward();
  const Numbers by_a = values<double>(a.grad());
  EXPECT_NEAR(by_a[0], 0.8064520359600369, 1e-12);
  EXPECT_NEAR(by_a[1], 0.8129040719200741, 1e-12);
  const Numbers by_b = values<double>(b.grad());
  EXPECT_NEAR(by_b[0], -.128, 1e-12);
  EXPECT_NEAR(by_b[1], .096, 1e-12);
  const Tensor none = zeros({0}, {.dtype = DType::kF16});
  EXPECT_EQ(cosine_similarity(none, none, {.dim = 0}).item<double>(), 0);
}

TEST(Edges, TopkOfATensorWithoutDimensions) {
  const auto [value, place] = topk(tensor(3.0), 1);
  EXPECT_EQ(value.item<double>(), 3);
  EXPECT_EQ(place.item<int>(), 0);
  EXPECT_ERROR(topk(tensor(3.0), 0), kInvalidArgument,
               "topk: k is 0, wanted 1 of a tensor without dimensions");
}

// The mean of equal numbers is that number, though their sum is rounded.
TEST(Edges, LayerNormOfEqualNumbersIsZero) {
  for (const float x : {0.1f, 1.7f, -2.9f}) {
    for (const std::int64_t n : {3, 7, 9, 61}) {
      const Tensor y = layer_norm(full({2, n}, x), {n}, {}, {}, 1e-12);
      EXPECT_EQ(values<double>(y), Numbers(static_cast<std::size_t>(2 * n), 0.0)) << x << " " << n;
    }
  }
}

// After eval() the slope does not depend on the input.
TEST(Edges, BatchNormByRunningStatisticsOfInfiniteInputs) {
  for (const std::int64_t places : {1, 6}) {
    const Tensor x = full({2, 2, places}, kInf, {.dtype = DType::kF64}).requires_grad_();
    const Tensor mean = zeros({2}, {.dtype = DType::kF64});
    const Tensor variance = tensor(Numbers{3, 8}, {.dtype = DType::kF64});
    sum(batch_norm(x, mean, variance, {}, {}, {.eps = 1})).backward();
    for (std::int64_t c = 0; c < 2; ++c) {
      for (const double slope : values<double>(x.grad().select(1, c))) {
        EXPECT_DOUBLE_EQ(slope, c == 0 ? 1.0 / 2 : 1.0 / 3);
      }
    }
  }
}

TEST(Edges, BatchNormOfABatchWithoutValuesMovesNothing) {
  const Tensor x = zeros({3, 2, 0}).requires_grad_();
  const Tensor mean = zeros({2});
  const Tensor variance = ones({2});
  const Tensor weight = ones({2}).requires_grad_();
  const Tensor y = batch_norm(x, mean, variance, weight, {}, {.training = true});
  EXPECT_EQ(y.sizes(), (Shape{3, 2, 0}));
  EXPECT_EQ(values<double>(mean), (Numbers{0, 0}));
  EXPECT_EQ(values<double>(variance), (Numbers{1, 1}));
  sum(y).backward();
  EXPECT_EQ(values<double>(weight.grad()), (Numbers{0, 0}));
}

// torch.nn.functional.conv_transpose2d(x, w, dilation=2, padding=p, output_padding=1), whose stride
// of 1 is not larger than output_padding.
TEST(Edges, ConvTranspose2dTakesOutputPaddingBelowTheDilation) {
  const Tensor x = tensor(Numbers{1, 2, 3, 4}, {.dtype = DType::kF64}).view({1, 1, 2, 2});
  const Tensor w = tensor(Numbers{1, 10, 100, 1000}, {.dtype = DType::kF64}).view({1, 1, 2, 2});
  const Tensor bias = tensor(Numbers{.5}, {.dtype = DType::kF64});
  const auto of = [&](IntPair padding) {
    return conv_transpose2d(x, w, bias, {.padding = padding, .output_padding = 1, .dilation = 2});
  };
  EXPECT_EQ(of(0).sizes(), (Shape{1, 1, 5, 5}));
  expect_numbers(
      of(0), {1.5,    2.5, 10.5,  20.5,  .5,     3.5,    4.5, 30.5, 40.5, .5, 100.5, 200.5, 1000.5,
              2000.5, .5,  300.5, 400.5, 3000.5, 4000.5, .5,  .5,   .5,   .5, .5,    .5});
  EXPECT_EQ(of(1).sizes(), (Shape{1, 1, 3, 3}));
  expect_numbers(of(1), {4.5, 30.5, 40.5, 200.5, 1000.5, 2000.5, 400.5, 3000.5, 4000.5});
  EXPECT_ERROR(conv_transpose2d(x, w, bias, {.output_padding = 2, .dilation = 2}), kInvalidArgument,
               "conv_transpose2d: output_padding is (2, 2), wanted at least 0 and less than the "
               "stride (1, 1) or the dilation (2, 2)");
}

}  // namespace
}  // namespace dl
