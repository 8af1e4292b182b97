#include "core/autocast/autocast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/autograd/grad_mode.h"
#include "core/base/log/warn_once.h"
#include "core/device/cpu_bfloat16.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "tests/core/ops/random_tensor.h"
#include "tests/core/support.h"

namespace dl {
namespace {

constexpr DeviceType kCPU = DeviceType::kCPU;

TEST(Autocast, CastsByThePolicyOfEachOperation) {
  const Tensor x = random_tensor({2, 4});
  const Tensor image = random_tensor({1, 2, 4, 4});
  const autocast mixed(kCPU);
  EXPECT_EQ(matmul(x, x.t()).dtype(), DType::kBF16);
  EXPECT_EQ(linear(x, random_tensor({3, 4}), random_tensor({3})).dtype(), DType::kBF16);
  EXPECT_EQ(conv2d(image, random_tensor({3, 2, 3, 3})).dtype(), DType::kBF16);
  const Tensor low = x.to(DType::kBF16);
  EXPECT_EQ(relu(low).dtype(), DType::kBF16);
  EXPECT_EQ(add(low, x).dtype(), DType::kF32);
  EXPECT_EQ(cross_entropy(low, tensor({0, 1})).dtype(), DType::kF32);
  EXPECT_EQ(mse_loss(low, low).dtype(), DType::kF32);
  EXPECT_EQ(matmul(x.to(DType::kF64), x.t().to(DType::kF64)).dtype(), DType::kF64);
}

// torch.autocast("cpu") computes these in what they are given; CUDA's list has them in float32.
TEST(Autocast, OnTheCPUExponentialsAndSumsKeepTheirDtype) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor x = random_tensor({2, 4});
    const autocast mixed(kCPU, {.dtype = dtype});
    const Tensor low = add(mul(x, x), 0.5).to(dtype);
    for (const Tensor& y : {exp(low), log(low), pow(low, 1.5), 1.0 / low, sum(low), sum(low, {0}),
                            mean(low), softmax(low, 1), log_softmax(low, 1), tanh(low), max(low)}) {
      EXPECT_EQ(y.dtype(), dtype);
    }
    EXPECT_EQ(exp(x).dtype(), DType::kF32);
    EXPECT_EQ(softmax(x, 1).dtype(), DType::kF32);
  }
}

TEST(Autocast, SaysOnceThatACpuHasNoInstructionsForBFloat16) {
  detail::forget_written_lines();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    const autocast mixed(kCPU);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (cpu_has_bfloat16()) {
    EXPECT_EQ(said, "");
  } else {
    EXPECT_THAT(said, ::testing::HasSubstr("this CPU has no instructions for bfloat16"));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  }
}

TEST(Autocast, NestsAndEndsWithItsGuard) {
  const Tensor x = random_tensor({2, 2});
  EXPECT_FALSE(is_autocast_enabled(kCPU));
  {
    const autocast outer(kCPU, {.dtype = DType::kF16});
    EXPECT_EQ(get_autocast_dtype(kCPU), DType::kF16);
    {
      const autocast off(kCPU, {.enabled = false});
      EXPECT_EQ(matmul(x, x).dtype(), DType::kF32);
    }
    EXPECT_EQ(matmul(x, x).dtype(), DType::kF16);
    EXPECT_FALSE(is_autocast_enabled(DeviceType::kCUDA));
  }
  EXPECT_EQ(matmul(x, x).dtype(), DType::kF32);
  EXPECT_ERROR(autocast(kCPU, {.dtype = DType::kF32}), kDType,
               "autocast: dtype is float32, wanted float16 or bfloat16");
}

TEST(Autocast, GradientsOfWeightsAreFloat32) {
  const Tensor w = random_tensor({3, 4}).requires_grad_();
  const Tensor x = random_tensor({2, 4});
  Tensor y;
  {
    const autocast mixed(kCPU);
    y = sum(linear(x, w));
    y.backward();  // inside the guard too
  }
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  const auto got = values<float>(w.grad());
  const auto wanted = values<float>(sum(x.to(DType::kBF16).to(DType::kF32), {0}));
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i % 4], 0.02) << i;
  }
}

// A cast of a leaf is its node's output: two uses of one cast have one node.
TEST(Autocast, CastsAWeightOnceUntilItChanges) {
  const Tensor w = ones({4, 4}, {.requires_grad = true});
  const auto cast_of_weight = [&] { return detail::find_autocast(w, DType::kBF16, true); };
  {
    const autocast mixed(kCPU);
    matmul(w, w);
    const Tensor first = cast_of_weight();
    ASSERT_TRUE(first.defined());
    {
      const autocast inner(kCPU);
      matmul(w, w);
    }
    EXPECT_TRUE(cast_of_weight().is_same(first));
    {
      const NoGradGuard no_grad;
      matmul(w, w);
      EXPECT_FALSE(cast_of_weight().defined());  // what was kept now has no history
    }
    matmul(w, w);
    EXPECT_TRUE(cast_of_weight().defined());
    const NoGradGuard no_grad;
    w.detach().fill_(1);
    EXPECT_FALSE(cast_of_weight().defined());
  }
  EXPECT_FALSE(cast_of_weight().defined());
}

// Several backward passes inside of one guard go through the same cast.
TEST(Autocast, GradientsAccumulateThroughOneCast) {
  const Tensor w = full({2, 2}, 1.0, {.requires_grad = true});
  const autocast mixed(kCPU);
  for (int i = 0; i < 3; ++i) sum(matmul(ones({1, 2}), w)).backward();
  EXPECT_EQ(values<float>(w.grad()), std::vector<float>(4, 3.0F));
}

TEST(HalfWidth, OperationsOnTheCPUComputeInFloat32AndRoundOnce) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const double tolerance = dtype == DType::kF16 ? 2e-3 : 1.6e-2;  // two units in the last place
    const auto close = [&](const Tensor& got, const Tensor& wanted) {
      EXPECT_EQ(got.dtype(), dtype);
      const auto a = values<double>(got);
      const auto b = values<double>(wanted);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << i;
      }
    };
    // The same numbers in both dtypes.
    const auto pair = [&](const Shape& shape) {
      const Tensor low = random_tensor(shape).to(dtype);
      return std::pair(low.clone().requires_grad_(), low.to(DType::kF32).requires_grad_());
    };
    const auto [x, x32] = pair({2, 3, 5, 5});
    const auto [w, w32] = pair({4, 3, 3, 3});
    const auto [b, b32] = pair({4});
    const MaxPool2dArgs pool{.kernel = {2, 2}, .stride = {2, 2}};
    const Tensor y = max_pool2d(conv2d(x, w, b, {.relu = true}), pool);
    const Tensor y32 = max_pool2d(conv2d(x32, w32, b32, {.relu = true}), pool);
    close(y, y32);
    const auto [v, v32] = pair({3, 4});
    const Tensor z = linear(y.flatten(1), v);
    const Tensor z32 = linear(y32.flatten(1), v32);
    close(z, z32);
    cross_entropy(z, tensor({2, 0})).backward();
    cross_entropy(z32, tensor({2, 0})).backward();
    close(v.grad(), v32.grad());
    close(w.grad(), w32.grad());
    close(b.grad(), b32.grad());
    close(x.grad(), x32.grad());
    const auto [p, p32] = pair({7});
    mse_loss(p, zeros({7}).to(dtype)).backward();
    mse_loss(p32, zeros({7})).backward();
    close(p.grad(), p32.grad());
  }
}

}  // namespace
}  // namespace dl
