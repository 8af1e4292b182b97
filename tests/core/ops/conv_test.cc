#include "core/ops/conv/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/autograd/graph/leaf.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/layout/deferred.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

// By the definition, in f64, from whatever strides and dtypes.
Tensor naive_conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dArgs& args) {
  const Tensor input = x.to(DType::kF64);
  const Tensor weight = w.to(DType::kF64);
  const std::int64_t per_group = w.size(0) / args.groups;
  const auto size = [&](std::size_t d, std::int64_t in, std::int64_t k) {
    return (in + 2 * args.padding[d] - args.dilation[d] * (k - 1) - 1) / args.stride[d] + 1;
  };
  const std::int64_t oh = size(0, x.size(2), w.size(2));
  const std::int64_t ow = size(1, x.size(3), w.size(3));
  Tensor y = zeros({x.size(0), w.size(0), oh, ow}, {.dtype = DType::kF64});
  for (std::int64_t n = 0; n < x.size(0); ++n)
    for (std::int64_t o = 0; o < w.size(0); ++o)
      for (std::int64_t oy = 0; oy < oh; ++oy)
        for (std::int64_t ox = 0; ox < ow; ++ox) {
          double sum = b.defined() ? b.to(DType::kF64).at<double>({o}) : 0;
          for (std::int64_t i = 0; i < w.size(1); ++i)
            for (std::int64_t ky = 0; ky < w.size(2); ++ky)
              for (std::int64_t kx = 0; kx < w.size(3); ++kx) {
                const std::int64_t iy =
                    oy * args.stride[0] + ky * args.dilation[0] - args.padding[0];
                const std::int64_t ix =
                    ox * args.stride[1] + kx * args.dilation[1] - args.padding[1];
                if (iy < 0 || iy >= x.size(2) || ix < 0 || ix >= x.size(3)) continue;
                sum += input.at<double>({n, o / per_group * w.size(1) + i, iy, ix}) *
                       weight.at<double>({o, i, ky, kx});
              }
          y.at<double>({n, o, oy, ox}) = args.relu ? std::max(sum, 0.0) : sum;
        }
  return y;
}

void expect_close(const Tensor& got, const Tensor& wanted, double tolerance) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const auto a = values<double>(got);
  const auto b = values<double>(wanted);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "at " << i;
}

class Conv2dOp : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Conv2dOp, ::testing::Values(DType::kF32, DType::kF64));

TEST_P(Conv2dOp, EqualsTheDefinitionForAnyLayout) {
  for (const std::int64_t channels : {1, 3, 8}) {
    const Tensor x = random_tensor({2, channels, 7, 9}, GetParam(), 1);
    const Tensor w = random_tensor({6, channels, 3, 2}, GetParam(), 2);
    const Tensor b = random_tensor({6}, GetParam(), 3);
    const Conv2dArgs args{.stride = {2, 1}, .padding = {1, 0}};
    const Tensor wanted = naive_conv2d(x, w, b, args);
    expect_close(conv2d(x, w, b, args), wanted, sum_tolerance(GetParam()));
    expect_close(conv2d(x.contiguous(MemoryFormat::kChannelsLast), w, b, args), wanted,
                 sum_tolerance(GetParam()));
    expect_close(conv2d(strided_copy(x), strided_copy(w), strided_copy(b), args), wanted,
                 sum_tolerance(GetParam()));
  }
}

TEST_P(Conv2dOp, TakesGroupsDilationAndNoBias) {
  const Tensor x = random_tensor({1, 6, 8, 8}, GetParam(), 1);
  const Tensor w = random_tensor({9, 2, 3, 3}, GetParam(), 2);
  const Conv2dArgs args{.padding = {2, 2}, .dilation = {2, 2}, .groups = 3};
  expect_close(conv2d(x, w, {}, args), naive_conv2d(x, w, {}, args), sum_tolerance(GetParam()));
}

TEST_P(Conv2dOp, FusedReluEqualsReluAfterIt) {
  Tensor x = random_tensor({2, 4, 6, 6}, GetParam(), 1).requires_grad_();
  Tensor w = random_tensor({5, 4, 3, 3}, GetParam(), 2).requires_grad_();
  Tensor b = random_tensor({5}, GetParam(), 3).requires_grad_();
  const Tensor direction = random_tensor({2, 5, 4, 4}, GetParam(), 4);
  std::vector<Tensor> fused;
  for (const bool fuse : {true, false}) {
    const Tensor y = fuse ? conv2d(x, w, b, {.relu = true}) : relu(conv2d(x, w, b));
    y.backward(direction);
    const std::vector<Tensor> now{y.detach(), x.grad().clone(), w.grad().clone(), b.grad().clone()};
    for (const Tensor& leaf : {x, w, b}) leaf.zero_grad();
    if (fuse) fused = now;
    for (std::size_t i = 0; i < now.size(); ++i)
      expect_close(fused[i], now[i], sum_tolerance(GetParam()));
  }
}

TEST(Conv2dOpLayout, IsThatOfTheImageAndItsElementsLieChannelsLast) {
  const Tensor x = random_tensor({2, 3, 8, 8});
  const Tensor w = random_tensor({4, 3, 3, 3});
  const Tensor y = conv2d(x, w);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_TRUE(StoredOrder(y)->is_channels_last());
  EXPECT_TRUE(conv2d(x.contiguous(MemoryFormat::kChannelsLast), w).is_channels_last());
}

TEST(Conv2dOpGradient, F32EqualsF64) {
  std::vector<Tensor> exact;
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Tensor x = random_tensor({2, 3, 9, 9}, dtype, 1).requires_grad_();
    Tensor w = random_tensor({16, 3, 3, 3}, dtype, 2).requires_grad_();
    Tensor b = random_tensor({16}, dtype, 3).requires_grad_();
    conv2d(x, w, b, {.padding = {1, 1}}).backward(random_tensor({2, 16, 9, 9}, dtype, 4));
    if (dtype == DType::kF64) exact = {x.grad(), w.grad(), b.grad()};
    if (dtype == DType::kF32) {
      expect_close(x.grad(), exact[0], 2e-5);
      expect_close(w.grad(), exact[1], 5e-5);
      expect_close(b.grad(), exact[2], 5e-5);
    }
  }
}

TEST(Conv2dOpGradient, IsComputedInTheLeafsDestinationAndAddsThere) {
  for (const std::int64_t channels : {1, 8}) {
    const Tensor x = random_tensor({2, channels, 6, 6});
    Tensor w = random_tensor({4, channels, 3, 3}).requires_grad_();
    const Tensor bucket = zeros(w.sizes());
    set_grad_destination(w, bucket);
    sum(conv2d(x, w)).backward();
    EXPECT_EQ(w.grad().data_ptr(), bucket.data_ptr());
    const Tensor once = bucket.clone();
    sum(conv2d(x, w)).backward();
    expect_close(bucket, once + once, 1e-5);
    w.zero_grad();
    sum(conv2d(x, w)).backward();
    expect_close(bucket, once, 0);
  }
}

TEST(Conv2dOpShape, EmptyBatchHasZeroGradients) {
  Tensor w = random_tensor({4, 3, 3, 3}).requires_grad_();
  const Tensor y = conv2d(empty({0, 3, 8, 8}), w);
  EXPECT_EQ(y.sizes(), (Shape{0, 4, 6, 6}));
  y.backward(empty({0, 4, 6, 6}));
  EXPECT_EQ(values<float>(w.grad()), std::vector<float>(108, 0.0F));
}

TEST(Conv2dOpErrors, SayWhatCameAndWhatWasWanted) {
  const Tensor x = random_tensor({2, 3, 8, 8});
  const Tensor w = random_tensor({4, 3, 3, 3});
  EXPECT_ERROR(conv2d(Tensor(), w), kInvalidArgument, "conv2d: the input is an undefined tensor");
  EXPECT_ERROR(conv2d(random_tensor({8, 8}), w), kShape,
               "conv2d: the input has shape [8, 8], wanted [N, C, H, W] or [C, H, W]");
  EXPECT_ERROR(conv2d(x, random_tensor({4, 3})), kShape,
               "conv2d: the weight has shape [4, 3], wanted [O, C / groups, kh, kw]");
  EXPECT_ERROR(conv2d(x, random_tensor({4, 2, 3, 3})), kShape,
               "conv2d: the input [2, 3, 8, 8] has 3 channels, but the weight [4, 2, 3, 3] with "
               "groups = 1 wants 2");
  EXPECT_ERROR(conv2d(x, w, random_tensor({5})), kShape,
               "conv2d: the bias has shape [5], wanted [4]");
  EXPECT_ERROR(conv2d(x, w.to(DType::kF64)), kDType,
               "conv2d: the input is float32, but the weight is float64");
  EXPECT_ERROR(conv2d(x.to(DType::kI32), w), kDType,
               "conv2d: int32 is not supported; wanted a floating dtype");
  EXPECT_ERROR(conv2d(x, w, {}, {.stride = {0, 1}}), kInvalidArgument,
               "conv2d: stride is (0, 1), wanted at least 1");
  EXPECT_ERROR(conv2d(x, w, {}, {.groups = 0}), kInvalidArgument,
               "conv2d: groups is 0, wanted at least 1");
  EXPECT_ERROR(
      conv2d(random_tensor({1, 3, 2, 2}), w), kShape,
      "conv2d: a window of 3 x 3 with dilation (1, 1) does not fit into the input [1, 3, 2, 2] "
      "with padding (0, 0)");
}

class MaxPool2dOp : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, MaxPool2dOp, ::testing::Values(DType::kF32, DType::kF64));

TEST_P(MaxPool2dOp, EqualsTheDefinitionForAnyLayout) {
  const Tensor x = random_tensor({2, 5, 7, 8}, GetParam());
  const MaxPool2dArgs args{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}};
  const Tensor y = max_pool2d(x, args);
  ASSERT_EQ(y.sizes(), (Shape{2, 5, 4, 7}));
  EXPECT_EQ(values<double>(max_pool2d(strided_copy(x), args)), values<double>(y));
  EXPECT_EQ(values<double>(max_pool2d(x.contiguous(MemoryFormat::kChannelsLast), args)),
            values<double>(y));
  const Tensor x64 = x.to(DType::kF64);
  const Tensor y64 = y.to(DType::kF64);
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t c = 0; c < 5; ++c)
      for (std::int64_t oy = 0; oy < 4; ++oy)
        for (std::int64_t ox = 0; ox < 7; ++ox) {
          double best = -1e9;
          for (std::int64_t iy = std::max<std::int64_t>(0, 2 * oy - 1);
               iy < std::min<std::int64_t>(7, 2 * oy + 2); ++iy)
            for (std::int64_t ix = ox; ix < ox + 2; ++ix)
              best = std::max(best, x64.at<double>({n, c, iy, ix}));
          ASSERT_EQ(y64.at<double>({n, c, oy, ox}), best);
        }
}

TEST_P(MaxPool2dOp, WithReluEqualsReluBeforeIt) {
  Tensor x = random_tensor({2, 5, 6, 6}, GetParam()).requires_grad_();
  const MaxPool2dArgs args{.kernel = {2, 2}, .stride = {2, 2}};
  MaxPool2dArgs fused_args = args;
  fused_args.relu = true;
  const Tensor direction = random_tensor({2, 5, 3, 3}, GetParam(), 2);
  const Tensor plain = max_pool2d(relu(x), args);
  plain.backward(direction);
  const auto wanted = values<double>(x.grad());
  x.zero_grad();
  const Tensor fused = max_pool2d(x, fused_args);
  fused.backward(direction);
  EXPECT_EQ(values<double>(fused), values<double>(plain));
  EXPECT_EQ(values<double>(x.grad()), wanted);
}

TEST(MaxPool2dOpErrors, SayWhatCameAndWhatWasWanted) {
  const Tensor x = random_tensor({2, 3, 8, 8});
  EXPECT_ERROR(max_pool2d(random_tensor({8, 8}), {.kernel = {2, 2}}), kShape,
               "max_pool2d: the input has shape [8, 8], wanted [N, C, H, W] or [C, H, W]");
  EXPECT_ERROR(max_pool2d(x.to(DType::kI64), {.kernel = {2, 2}}), kDType,
               "max_pool2d: int64 is not supported; wanted a floating dtype");
  EXPECT_ERROR(max_pool2d(x, {.kernel = {0, 2}}), kInvalidArgument,
               "max_pool2d: kernel_size is (0, 2), wanted at least 1");
  EXPECT_ERROR(max_pool2d(x, {.kernel = {std::int64_t{1} << 32, std::int64_t{1} << 32}}),
               kInvalidArgument,
               "max_pool2d: kernel_size is (4294967296, 4294967296), wanted at most 2147483647");
  EXPECT_ERROR(max_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}), kInvalidArgument,
               "max_pool2d: padding is (2, 0), wanted at most half of the kernel_size (2, 2)");
  EXPECT_ERROR(
      max_pool2d(x, {.kernel = {9, 2}}), kShape,
      "max_pool2d: a window of 9 x 2 with dilation (1, 1) does not fit into the input [2, 3, 8, "
      "8] with padding (0, 0)");
}

}  // namespace
}  // namespace dl
