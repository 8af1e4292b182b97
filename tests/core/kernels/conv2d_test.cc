#include "core/kernels/cpu/conv/conv2d.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/kernels/cpu/conv/conv2d_dnnl.h"
#include "tests/core/kernels/conv2d_reference.h"
#include "tests/core/kernels/random_values.h"

namespace dl::kernels {

namespace {

template <typename T>
void expect_near(const std::vector<T>& got, const std::vector<double>& wanted, double terms) {
  ASSERT_EQ(got.size(), wanted.size());
  const double unit = sizeof(T) == 4 ? 1e-6 : 1e-14;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], unit * (4 + 2 * std::sqrt(terms))) << "at " << i;
  }
}

template <typename T>
struct Case {
  explicit Case(const Conv2dShape& shape, const Kernels<T>& under_test = {})
      : s(shape),
        kernels(under_test),
        x(random_values<T>(s.n * s.c_in * s.h * s.w, 1)),
        weight(random_values<T>(s.c_out * s.taps(), 2)),
        bias(random_values<T>(s.c_out, 3)),
        dy(random_values<T>(s.n * s.c_out * s.out_h() * s.out_w(), 4)) {}

  void check() const {
    forward(true, false);
    forward(true, true);
    forward(false, false);
    backward_data();
    backward_weights(true);
    backward_weights(false);
  }

  void forward(bool with_bias, bool relu) const {
    std::vector<double> wanted(dy.size(), 0.0);
    for (std::size_t i = 0; with_bias && i < wanted.size(); ++i) wanted[i] = bias[i % s.c_out];
    Reference(s).each([&](auto xi, auto yi, auto wi) {
      if (xi >= 0) wanted[yi] += static_cast<double>(x[xi]) * static_cast<double>(weight[wi]);
    });
    for (double& v : wanted) v = relu && v < 0 ? 0 : v;
    std::vector<T> y(dy.size(), T{7});
    kernels.forward(s, x.data(), weight.data(), with_bias ? bias.data() : nullptr, relu, y.data());
    expect_near(y, wanted, static_cast<double>(s.taps()));
  }

  void backward_data() const {
    std::vector<double> wanted(x.size(), 0.0);
    Reference(s).each([&](auto xi, auto yi, auto wi) {
      if (xi >= 0) wanted[xi] += static_cast<double>(dy[yi]) * static_cast<double>(weight[wi]);
    });
    std::vector<T> dx(x.size(), T{7});
    kernels.backward_data(s, dy.data(), weight.data(), dx.data());
    expect_near(dx, wanted, static_cast<double>(s.c_out * s.kh * s.kw));
  }

  void backward_weights(bool with_bias) const {
    std::vector<double> wanted(weight.size(), 0.0);
    std::vector<double> wanted_bias(bias.size(), 0.0);
    Reference(s).each([&](auto xi, auto yi, auto wi) {
      if (xi >= 0) wanted[wi] += static_cast<double>(dy[yi]) * static_cast<double>(x[xi]);
    });
    for (std::size_t i = 0; i < dy.size(); ++i) wanted_bias[i % s.c_out] += dy[i];
    std::vector<T> dweight(weight.size(), T{7});
    std::vector<T> dbias(bias.size(), T{7});
    kernels.backward_weights(s, x.data(), dy.data(), dweight.data(),
                             with_bias ? dbias.data() : nullptr);
    const auto terms = static_cast<double>(s.n * s.out_h() * s.out_w());
    expect_near(dweight, wanted, terms);
    if (with_bias) expect_near(dbias, wanted_bias, terms);
  }

  Conv2dShape s;
  Kernels<T> kernels;
  std::vector<T> x, weight, bias, dy;
};

class Conv2dOf : public testing::TestWithParam<Conv2dShape> {};

TEST_P(Conv2dOf, EqualsTheDefinitionInF32) {
  Case<float>(GetParam()).check();
}
TEST_P(Conv2dOf, EqualsTheDefinitionInF64) {
  Case<double>(GetParam()).check();
}

class WinogradOf : public testing::TestWithParam<Conv2dShape> {};

TEST_P(WinogradOf, EqualsTheDefinition) {
  Case<float>(GetParam(), kWinograd<2>).check();
  Case<float>(GetParam(), kWinograd<4>).check();
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dOf, testing::Values(
    Conv2dShape{.n = 2, .c_in = 1, .h = 9, .w = 7, .c_out = 5, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 3, .c_in = 1, .h = 28, .w = 28, .c_out = 32, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 2, .c_in = 3, .h = 12, .w = 11, .c_out = 19, .kh = 5, .kw = 3, .stride_h = 2, .stride_w = 3, .pad_h = 2, .pad_w = 1},
    Conv2dShape{.n = 1, .c_in = 4, .h = 8, .w = 8, .c_out = 33, .kh = 2, .kw = 2, .dilation_h = 2, .dilation_w = 3},
    Conv2dShape{.n = 2, .c_in = 2, .h = 7, .w = 7, .c_out = 8, .kh = 1, .kw = 1, .stride_h = 2, .stride_w = 2},
    Conv2dShape{.n = 3, .c_in = 32, .h = 14, .w = 14, .c_out = 64, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 2, .c_in = 5, .h = 6, .w = 9, .c_out = 7, .kh = 3, .kw = 2, .stride_h = 2, .stride_w = 1, .pad_h = 1},
    Conv2dShape{.n = 2, .c_in = 16, .h = 10, .w = 10, .c_out = 8, .kh = 3, .kw = 3, .pad_h = 2, .pad_w = 2, .dilation_h = 2, .dilation_w = 2},
    Conv2dShape{.n = 2, .c_in = 8, .h = 6, .w = 6, .c_out = 12, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1, .groups = 4},
    Conv2dShape{.n = 2, .c_in = 8, .h = 6, .w = 6, .c_out = 8, .kh = 3, .kw = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1, .groups = 8},
    Conv2dShape{.n = 3, .c_in = 37, .h = 9, .w = 10, .c_out = 37, .kh = 3, .kw = 3, .stride_h = 1, .stride_w = 2, .pad_h = 1, .pad_w = 1, .groups = 37},
    Conv2dShape{.n = 3, .c_in = 16, .h = 2, .w = 2, .c_out = 16, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 2, .groups = 16},
    Conv2dShape{.n = 2, .c_in = 20, .h = 9, .w = 8, .c_out = 20, .kh = 2, .kw = 7, .stride_h = 3, .stride_w = 3, .pad_h = 1, .pad_w = 9, .groups = 20},
    Conv2dShape{.n = 2, .c_in = 48, .h = 11, .w = 9, .c_out = 48, .kh = 3, .kw = 2, .pad_h = 3, .dilation_h = 3, .dilation_w = 4, .groups = 48},
    Conv2dShape{.n = 1, .c_in = 6, .h = 3, .w = 3, .c_out = 1, .kh = 3, .kw = 3},
    Conv2dShape{.n = 0, .c_in = 6, .h = 3, .w = 3, .c_out = 2, .kh = 3, .kw = 3}));
INSTANTIATE_TEST_SUITE_P(Shapes, WinogradOf, testing::Values(
    Conv2dShape{.n = 2, .c_in = 16, .h = 7, .w = 9, .c_out = 16, .kh = 3, .kw = 3},
    Conv2dShape{.n = 2, .c_in = 21, .h = 7, .w = 8, .c_out = 35, .kh = 3, .kw = 3, .pad_h = 2, .pad_w = 1},
    Conv2dShape{.n = 1, .c_in = 16, .h = 40, .w = 37, .c_out = 16, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 2},
    Conv2dShape{.n = 23, .c_in = 16, .h = 4, .w = 4, .c_out = 16, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 3, .c_in = 17, .h = 1, .w = 1, .c_out = 16, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 1, .c_in = 3, .h = 5, .w = 6, .c_out = 2, .kh = 3, .kw = 3}));
// clang-format on

TEST(Conv2d, ThinKernelsAreForFewChannels) {
  EXPECT_TRUE(conv2d_is_thin({.n = 1, .c_in = 3, .h = 9, .w = 9, .c_out = 8, .kh = 3, .kw = 3}));
  EXPECT_FALSE(conv2d_is_thin({.n = 1, .c_in = 32, .h = 9, .w = 9, .c_out = 8, .kh = 3, .kw = 3}));
}

TEST(Conv2d, DepthwiseKernelsAreForManyChannels) {
  const Conv2dShape s{
      .n = 1, .c_in = 32, .h = 9, .w = 9, .c_out = 32, .kh = 5, .kw = 5, .groups = 32};
  EXPECT_TRUE(conv2d_is_depthwise(s));
  Conv2dShape other = s;
  other.c_out = 64;
  EXPECT_FALSE(conv2d_is_depthwise(other));
  other = s;
  other.kw = 8;
  EXPECT_FALSE(conv2d_is_depthwise(other));
}

TEST(Conv2d, UsesWinogradForLarge3x3Windows) {
  const Conv2dShape s{.n = 8, .c_in = 32, .h = 9, .w = 9, .c_out = 64, .kh = 3, .kw = 3};
  EXPECT_TRUE(conv2d_is_winograd(s));
  const auto changed = [&](std::int64_t Conv2dShape::* field, std::int64_t value) {
    Conv2dShape other = s;
    other.*field = value;
    return conv2d_is_winograd(other);
  };
  EXPECT_FALSE(changed(&Conv2dShape::stride_w, 2));
  EXPECT_FALSE(changed(&Conv2dShape::dilation_h, 2));
  EXPECT_FALSE(changed(&Conv2dShape::kh, 1));
  EXPECT_FALSE(changed(&Conv2dShape::pad_h, 3));
  EXPECT_FALSE(changed(&Conv2dShape::c_in, 8));
  EXPECT_FALSE(changed(&Conv2dShape::n, 2));
}

TEST(Conv2d, LargeTilesOfWinogradAreForManyPixels) {
  Conv2dShape s{
      .n = 8, .c_in = 32, .h = 16, .w = 16, .c_out = 64, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};
  EXPECT_EQ(winograd_tile(s), 4);
  s.n = 1;
  EXPECT_EQ(winograd_tile(s), 2);
  s = {.n = 99, .c_in = 32, .h = 2, .w = 2, .c_out = 64, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};
  EXPECT_EQ(winograd_tile(s), 2);
}

// oneDNN's channels-last code for one channel is its reference code; the other layout it is given
// instead must come out the same.
TEST(Conv2d, OneDnnWithReordersEqualsTheThinKernels) {
  const Case<float> c(
      {.n = 2, .c_in = 1, .h = 8, .w = 8, .c_out = 16, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1});
  std::vector<float> thin(c.dy.size());
  std::vector<float> other(c.dy.size());
  thin_conv2d_forward(c.s, c.x.data(), c.weight.data(), c.bias.data(), false, thin.data());
  dnnl_conv2d_forward(c.s, c.x.data(), c.weight.data(), c.bias.data(), other.data());
  expect_near(thin, as_f64(other), 9);
  std::vector<float> thin_weight(c.weight.size());
  std::vector<float> other_weight(c.weight.size());
  std::vector<float> thin_bias(c.bias.size());
  std::vector<float> other_bias(c.bias.size());
  thin_conv2d_backward_weights(c.s, c.x.data(), c.dy.data(), thin_weight.data(), thin_bias.data());
  dnnl_conv2d_backward_weights(c.s, c.x.data(), c.dy.data(), other_weight.data(),
                               other_bias.data());
  expect_near(thin_weight, as_f64(other_weight), 128);
  expect_near(thin_bias, as_f64(other_bias), 128);
}

TEST(Conv2d, GivesTheSameBitsTwice) {
  const Case<float> c(
      {.n = 5, .c_in = 1, .h = 28, .w = 28, .c_out = 32, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1});
  std::vector<float> first(c.weight.size());
  std::vector<float> second(c.weight.size());
  conv2d_backward_weights(c.s, c.x.data(), c.dy.data(), first.data(), nullptr);
  conv2d_backward_weights(c.s, c.x.data(), c.dy.data(), second.data(), nullptr);
  EXPECT_EQ(first, second);
}

// As a frame around the image, this padding would take 160 GB.
TEST(Conv2d, PaddingCostsNoMemory) {
  constexpr std::int64_t kFar = 100'000;
  const Conv2dShape s{.n = 2,
                      .c_in = 1,
                      .h = 1,
                      .w = 1,
                      .c_out = 1,
                      .kh = 1,
                      .kw = 1,
                      .stride_h = kFar,
                      .stride_w = kFar,
                      .pad_h = kFar,
                      .pad_w = kFar};
  const float x[] = {2, 4};
  const float weight = 3;
  const float bias = 1;
  std::vector<float> y(2 * 9);
  conv2d_forward(s, x, &weight, &bias, false, y.data());
  std::vector<float> wanted(2 * 9, 1.0F);
  wanted[4] = 7;
  wanted[13] = 13;
  EXPECT_EQ(y, wanted);
  float dweight = 0;
  conv2d_backward_weights(s, x, wanted.data(), &dweight, nullptr);
  EXPECT_EQ(dweight, 2 * 7 + 4 * 13);
}

}  // namespace
}  // namespace dl::kernels
