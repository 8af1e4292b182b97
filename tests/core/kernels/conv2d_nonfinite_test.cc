// What a convolution makes of infinities, NaN and numbers near the largest: the definition's finite
// results stay finite, an infinity does not become NaN, and NaN stays NaN, on every path.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/conv/conv2d.h"
#include "tests/core/kernels/conv2d_reference.h"
#include "tests/core/kernels/random_values.h"

namespace dl::kernels {
namespace {

template <typename T>
struct Operands {
  explicit Operands(const Conv2dShape& s)
      : x(random_values<T>(s.n * s.c_in * s.h * s.w, 1)),
        weight(random_values<T>(s.c_out * s.taps(), 2)),
        bias(random_values<T>(s.c_out, 3)),
        dy(random_values<T>(s.n * s.c_out * s.out_h() * s.out_w(), 4)) {}
  std::vector<T> x, weight, bias, dy;
};

// Infinite and NaN for the same elements as the definition, otherwise near it. `largest`: an
// operand's largest magnitude, since algorithms that add before they multiply round by a share of
// that.
template <typename T>
void expect_alike(const std::vector<T>& got, const std::vector<double>& wanted, double largest,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto rounded = static_cast<T>(wanted[i]);
    const bool alike = std::isnan(rounded)   ? std::isnan(got[i])
                       : std::isinf(rounded) ? got[i] == rounded
                                             : std::abs(got[i] - rounded) <= 1e-4 * largest;
    if (alike) continue;
    if (++wrong == 1) {
      ADD_FAILURE() << what << ": [" << i << "] is " << got[i] << ", wanted " << rounded;
    }
  }
  if (wrong > 1) ADD_FAILURE() << what << ": " << wrong << " of " << got.size() << " are wrong";
}

template <typename T>
void expect_the_definition(const Conv2dShape& s, const Kernels<T>& kernels,
                           const Operands<T>& operands, double largest, const std::string& what) {
  const auto& [x, weight, bias, dy] = operands;
  std::vector<double> y(dy.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = bias[i % static_cast<std::size_t>(s.c_out)];
  std::vector<double> dx(x.size(), 0.0);
  std::vector<double> dweight(weight.size(), 0.0);
  Reference(s).each([&](auto xi, auto yi, auto wi) {
    if (xi < 0) return;
    const auto xv = static_cast<double>(x[xi]);
    const auto wv = static_cast<double>(weight[wi]);
    const auto gv = static_cast<double>(dy[yi]);
    y[yi] += xv * wv;
    dx[xi] += gv * wv;
    dweight[wi] += gv * xv;
  });
  std::vector<T> out(y.size(), T{7});
  kernels.forward(s, x.data(), weight.data(), bias.data(), false, out.data());
  expect_alike(out, y, largest, what + ", y");
  kernels.forward(s, x.data(), weight.data(), bias.data(), true, out.data());
  for (double& v : y) v = v < 0 ? 0 : v;
  expect_alike(out, y, largest, what + ", y with ReLU");
  std::vector<T> dx_out(x.size(), T{7});
  kernels.backward_data(s, dy.data(), weight.data(), dx_out.data());
  expect_alike(dx_out, dx, largest, what + ", dx");
  std::vector<T> dweight_out(weight.size(), T{7});
  std::vector<T> dbias_out(bias.size(), T{7});
  kernels.backward_weights(s, x.data(), dy.data(), dweight_out.data(), dbias_out.data());
  expect_alike(dweight_out, dweight, largest, what + ", dweight");
  std::vector<double> dbias(bias.size(), 0.0);
  for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % dbias.size()] += dy[i];
  expect_alike(dbias_out, dbias, largest, what + ", dbias");
}

template <typename T>
void check(const Conv2dShape& s, const Kernels<T>& kernels = {}) {
  using Limits = std::numeric_limits<T>;
  const T huge = static_cast<T>(0.9) * Limits::max();
  const std::pair<const char*, T> specials[] = {{"inf", Limits::infinity()},
                                                {"-inf", -Limits::infinity()},
                                                {"NaN", Limits::quiet_NaN()},
                                                {"huge", huge},
                                                {"-huge", -huge}};
  const std::pair<const char*, std::vector<T> Operands<T>::*> operands[] = {
      {"x", &Operands<T>::x},
      {"weight", &Operands<T>::weight},
      {"bias", &Operands<T>::bias},
      {"dy", &Operands<T>::dy}};
  expect_the_definition(s, kernels, Operands<T>(s), 1, "ordinary numbers");
  for (const auto& [value_name, value] : specials) {
    const double largest = std::isfinite(value) ? std::abs(static_cast<double>(value)) : 1;
    for (const auto& [operand_name, operand] : operands) {
      const std::string what = std::string(value_name) + " in " + operand_name;
      const auto with = [&](const char* where, const auto& put) {
        Operands<T> changed(s);
        put(changed.*operand);
        expect_the_definition(s, kernels, changed, largest, what + where);
      };
      with(" first", [&](auto& v) { v.front() = value; });
      with(" last", [&](auto& v) { v.back() = value; });
      with(" in the middle", [&](auto& v) { v[v.size() / 2] = value; });
      if (std::isfinite(value)) continue;
      with(" everywhere", [&](auto& v) { std::ranges::fill(v, value); });
      with(" with its opposite", [&](auto& v) {
        v[v.size() / 3] = value;
        v[v.size() / 2] = -value;
      });
    }
  }
}

// For the time of a test. One thread if nothing else is tested: on a busy machine every parallel
// loop waits for the scheduler.
class Threads {
 public:
  explicit Threads(int threads) { set_num_threads(threads); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = num_threads();
};

class Conv2dNonFinite : public testing::TestWithParam<Conv2dShape> {};

TEST_P(Conv2dNonFinite, IsTheDefinitionsInF32) {
  const Threads one(1);
  check<float>(GetParam());
}
TEST_P(Conv2dNonFinite, IsTheDefinitionsInF64) {
  const Threads one(1);
  check<double>(GetParam());
}

class WinogradNonFinite : public testing::TestWithParam<Conv2dShape> {};

TEST_P(WinogradNonFinite, IsTheDefinitions) {
  const Threads one(1);
  check<float>(GetParam(), kWinograd<2>);
  check<float>(GetParam(), kWinograd<4>);
}

TEST(Conv2dNonFiniteThreads, SeveralFindWhatEachHasSpoiled) {
  const Threads three(3);
  for (const std::int64_t c_in : {1, 16}) {
    const Conv2dShape s{.n = 15,
                        .c_in = c_in,
                        .h = 5,
                        .w = 6,
                        .c_out = 17,
                        .kh = 3,
                        .kw = 3,
                        .pad_h = 1,
                        .pad_w = 1};
    for (auto operand : {&Operands<float>::x, &Operands<float>::weight, &Operands<float>::dy}) {
      Operands<float> operands(s);
      std::vector<float>& v = operands.*operand;
      for (std::size_t i = 0; i < v.size(); i += v.size() / 7) {
        v[i] = std::numeric_limits<float>::infinity();
      }
      expect_the_definition(s, Kernels<float>{}, operands, 1, "every seventh part");
    }
  }
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dNonFinite, testing::Values(
    // Few channels.
    Conv2dShape{.n = 2, .c_in = 1, .h = 6, .w = 5, .c_out = 9, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 2, .c_in = 3, .h = 7, .w = 6, .c_out = 17, .kh = 5, .kw = 3, .stride_h = 2, .stride_w = 3, .pad_h = 2, .pad_w = 1},
    // Winograd's.
    Conv2dShape{.n = 11, .c_in = 16, .h = 6, .w = 8, .c_out = 17, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    // Depthwise.
    Conv2dShape{.n = 2, .c_in = 17, .h = 5, .w = 5, .c_out = 17, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1, .groups = 17},
    // oneDNN's: few tiles, stride, 1x1, dilation, groups.
    Conv2dShape{.n = 2, .c_in = 16, .h = 4, .w = 5, .c_out = 16, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 2, .c_in = 16, .h = 5, .w = 6, .c_out = 24, .kh = 3, .kw = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
    Conv2dShape{.n = 2, .c_in = 5, .h = 5, .w = 6, .c_out = 7, .kh = 3, .kw = 2, .stride_h = 2, .pad_h = 1},
    Conv2dShape{.n = 2, .c_in = 16, .h = 4, .w = 4, .c_out = 16, .kh = 1, .kw = 1},
    Conv2dShape{.n = 2, .c_in = 8, .h = 5, .w = 5, .c_out = 16, .kh = 1, .kw = 1, .stride_h = 2, .stride_w = 2},
    Conv2dShape{.n = 2, .c_in = 16, .h = 6, .w = 6, .c_out = 8, .kh = 3, .kw = 3, .pad_h = 2, .pad_w = 2, .dilation_h = 2, .dilation_w = 2},
    Conv2dShape{.n = 2, .c_in = 8, .h = 5, .w = 5, .c_out = 12, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1, .groups = 4},
    Conv2dShape{.n = 2, .c_in = 8, .h = 5, .w = 5, .c_out = 8, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1, .groups = 8}));
INSTANTIATE_TEST_SUITE_P(Shapes, WinogradNonFinite, testing::Values(
    Conv2dShape{.n = 2, .c_in = 16, .h = 7, .w = 9, .c_out = 16, .kh = 3, .kw = 3},
    Conv2dShape{.n = 1, .c_in = 21, .h = 7, .w = 8, .c_out = 19, .kh = 3, .kw = 3, .pad_h = 2, .pad_w = 1},
    Conv2dShape{.n = 5, .c_in = 3, .h = 4, .w = 3, .c_out = 2, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 2}));
// clang-format on

}  // namespace
}  // namespace dl::kernels
