// Results lie in memory as PyTorch 2.15's; the strides here are its. Cases that fuzz_operations.py
// (tests/parity/fuzz) found.
#include <gtest/gtest.h>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

Tensor strided(const Shape& shape, const Strides& strides, DType dtype = DType::kF32) {
  const std::int64_t extent = strided_extent(shape, strides, "strided");
  return as_strided(ones({extent}, {.dtype = dtype}), shape, strides, 0);
}

// Strides along dimensions of size 1 do not count.
::testing::AssertionResult has_strides(const Tensor& tensor, const Strides& wanted) {
  if (are_same_addresses(tensor.sizes(), tensor.strides(), wanted)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "strides " << tensor.strides().str() << " of shape "
                                       << tensor.sizes().str() << ", wanted " << wanted.str();
}

TEST(Layout, OperandsOfAnotherDtypeDecideByTheirOwnStrides) {
  // The stride of the last dimension, of size 1, decides.
  const Tensor a = strided({5, 5, 1, 1}, {5, 1, 5, 5}, DType::kBool);
  EXPECT_EQ(a.to(DType::kBF16).strides(), (Strides{5, 1, 5, 5}));
  EXPECT_TRUE(
      has_strides(lt(a, strided({5, 1, 5, 1}, {2, 30, 0, 0}, DType::kBF16)), {25, 1, 5, 25}));
  EXPECT_TRUE(has_strides(atan2(strided({1, 5, 1, 1}, {5, 1, 1, 1}, DType::kBool),
                                strided({7, 1, 9, 1}, {9, 63, 1, 63}, DType::kBool)),
                          {9, 63, 1, 315}));
  EXPECT_TRUE(has_strides(addcmul(strided({7, 4, 1, 4}, {0, 0, 3, 3}), strided({4}, {1}),
                                  strided({7, 4, 9, 1}, {1, 63, 7, 63}, DType::kF64)),
                          {144, 36, 4, 1}));
  EXPECT_TRUE(has_strides(
      where(strided({5, 5, 1, 9}, {6, 0, 2, 0}, DType::kBool), strided({1, 5, 1, 1}, {5, 1, 1, 1}),
            strided({5, 5, 1, 9}, {1, 0, 0, 10}, DType::kI32)),
      {1, 5, 1, 25}));
  EXPECT_TRUE(has_strides(isclose(strided({2, 5, 5, 1}, {15, 1, 0, 90}, DType::kU8),
                                  strided({2, 5, 5, 1}, {25, 5, 1, 25}, DType::kU8), {}),
                          {25, 5, 1, 50}));
}

TEST(Layout, APowerOfANumberIsRowMajor) {
  EXPECT_TRUE(has_strides(pow(2, strided({2, 3, 4}, {1, 8, 2})), {12, 4, 1}));
  EXPECT_TRUE(has_strides(pow(2, strided({2, 3, 4, 5}, {60, 1, 15, 3})), {60, 20, 5, 1}));
}

TEST(Layout, ShuffledPixelsOfChannelsLastStayChannelsLast) {
  EXPECT_TRUE(has_strides(pixel_unshuffle(strided({9, 3, 2, 2}, {12, 1, 6, 3}), 1), {12, 1, 6, 3}));
  EXPECT_TRUE(has_strides(pixel_unshuffle(strided({7, 1, 4, 2}, {8, 1, 2, 1}), 2), {8, 1, 4, 4}));
  EXPECT_TRUE(has_strides(pixel_shuffle(strided({4, 2, 3, 2}, {12, 1, 4, 2}), 1), {12, 1, 4, 2}));
}

TEST(Layout, ShuffledChannelsHaveTheStridesOfPyTorch) {
  EXPECT_TRUE(
      has_strides(channel_shuffle(strided({2, 4, 3, 5}, {60, 1, 20, 4}), 2), {60, 1, 20, 4}));
  EXPECT_TRUE(
      has_strides(channel_shuffle(strided({2, 4, 3, 5}, {15, 30, 1, 3}), 2), {60, 15, 5, 1}));
  EXPECT_TRUE(
      has_strides(channel_shuffle(strided({2, 4, 3, 5}, {60, 1, 20, 4}), 4), {60, 1, 20, 4}));
}

TEST(Layout, ACutTensorKeepsTheOrderOfItsDimensions) {
  EXPECT_TRUE(has_strides(pad(strided({9, 9}, {2, 36}), {-1, -1}), {1, 9}));
  EXPECT_TRUE(has_strides(pad(strided({9, 9}, {2, 36}), {-1, 1}), {9, 1}));
}

TEST(Layout, NormalisedImagesAreChannelsLastIfTheInputsAre) {
  const auto normalised = [](const Tensor& x, const Tensor& weight = {}) {
    const Tensor mean = zeros({x.size(1)});
    const Tensor variance = ones({x.size(1)});
    return batch_norm(x, mean, variance, weight, {}, {.training = false});
  };
  // The stride of the one row is no image's, but is none of an element's place either.
  EXPECT_TRUE(has_strides(normalised(strided({2, 8, 1, 5}, {40, 1, 1, 8})), {40, 1, 40, 8}));
  EXPECT_TRUE(has_strides(normalised(strided({1, 7, 3, 4}, {1, 1, 28, 7})), {84, 1, 28, 7}));
  EXPECT_TRUE(has_strides(normalised(strided({3, 2, 3, 3}, {36, 2, 12, 4})), {18, 1, 6, 2}));
  EXPECT_TRUE(has_strides(normalised(strided({3, 3, 1, 2}, {3, 1, 3, 9})), {6, 2, 2, 1}));
  const Tensor with_gaps = normalised(strided({1, 7, 3, 4}, {1, 1, 28, 7}), strided({7}, {2}));
  EXPECT_EQ(with_gaps.strides(), (Strides{84, 12, 4, 1}));
}

TEST(Layout, A1x1ConvolutionOfOneChannelKeepsTheImagesLayout) {
  const Tensor x = strided({2, 1, 2, 1}, {2, 4, 1, 4});
  for (const Strides& weight : {Strides{2, 1, 2, 1}, Strides{4, 1, 2, 1}}) {
    const Tensor y =
        conv2d(x, strided({2, 1, 1, 1}, weight), {}, {.stride = {2, 2}, .padding = {1, 1}});
    EXPECT_EQ(y.strides(), (Strides{8, 4, 2, 1}));
  }
  EXPECT_TRUE(has_strides(conv2d(strided({1, 1, 5, 3}, {15, 15, 1, 5}),
                                 strided({4, 1, 1, 1}, {2, 1, 2, 1}), {}, {.stride = {2, 2}}),
                          {24, 1, 8, 4}));
  EXPECT_TRUE(has_strides(conv2d(strided({3, 1, 10, 8}, {80, 80, 8, 1}),
                                 strided({5, 1, 2, 1}, {2, 1, 1, 1}), {}, {.stride = {3, 1}}),
                          {120, 1, 40, 5}));
}

TEST(Layout, LossesOfEachPairLieAsThePartsOfTheFormula) {
  EXPECT_TRUE(has_strides(
      huber_loss(strided({3, 1, 3, 4}, {0, 0, 1, 0}), strided({3, 1, 3, 4}, {3, 18, 288, 36}),
                 {.reduction = Reduction::kNone}),
      {12, 12, 4, 1}));
  EXPECT_TRUE(has_strides(kl_div(strided({5, 2, 3}, {6, 3, 60}), strided({5, 2, 3}, {3, 15, 0}),
                                 {.reduction = Reduction::kNone, .log_target = true}),
                          {3, 15, 1}));
  EXPECT_TRUE(
      has_strides(kl_div(strided({3, 3, 3, 303}, {2727, 909, 303, 1}),
                         strided({3, 3, 3, 303}, {6, 1, 0, 36}), {.reduction = Reduction::kNone}),
                  {9, 1, 3, 27}));
}

}  // namespace
}  // namespace dl
