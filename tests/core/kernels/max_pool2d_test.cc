#include "core/kernels/cpu/pool/max_pool2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "tests/core/kernels/random_values.h"

namespace dl::kernels {

void PrintTo(const Pool2dShape& s, std::ostream* os) {
  *os << s.n << 'x' << s.c << 'x' << s.h << 'x' << s.w << " by " << s.kh << 'x' << s.kw
      << " stride " << s.stride_h << ',' << s.stride_w << " pad " << s.pad_h << ',' << s.pad_w;
}

namespace {

// Input element that wins output (n, c, oy, ox), by the definition.
template <typename T>
std::int64_t winner_of(const Pool2dShape& s, const std::vector<T>& x, std::int64_t n,
                       std::int64_t c, std::int64_t oy, std::int64_t ox) {
  std::int64_t best = -1;
  for (std::int64_t ky = 0; ky < s.kh; ++ky) {
    for (std::int64_t kx = 0; kx < s.kw; ++kx) {
      const std::int64_t iy = oy * s.stride_h + ky * s.dilation_h - s.pad_h;
      const std::int64_t ix = ox * s.stride_w + kx * s.dilation_w - s.pad_w;
      if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
      const std::int64_t at = ((n * s.h + iy) * s.w + ix) * s.c + c;
      if (best < 0 || x[at] > x[best]) best = at;
    }
  }
  return best;
}

template <typename T>
void check(const Pool2dShape& s) {
  std::vector<T> x = random_values<T>(s.n * s.c * s.h * s.w);
  for (T& v : x) v = std::round(v * 8);  // with many equal values: the first must win
  const auto size = static_cast<std::size_t>(s.n * s.c * s.out_h() * s.out_w());
  const auto dy = random_values<T>(static_cast<std::int64_t>(size), 2);
  std::vector<T> y(size, T{99});
  std::vector<std::uint16_t> winner(size);
  std::vector<T> dx(x.size(), T{99});
  std::vector<T> dx_relu(x.size(), T{99});
  max_pool2d_forward(s, x.data(), y.data(), winner.data());
  max_pool2d_backward(s, dy.data(), winner.data(), dx.data());
  Pool2dShape with_relu = s;
  with_relu.relu = true;
  std::vector<T> y_relu(size, T{99});
  std::vector<std::uint16_t> winner_relu(size);
  max_pool2d_forward(with_relu, x.data(), y_relu.data(), winner_relu.data());
  max_pool2d_backward(with_relu, dy.data(), winner_relu.data(), dx_relu.data());

  std::vector<double> wanted(x.size(), 0.0);
  std::vector<double> wanted_relu(x.size(), 0.0);
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oy = 0; oy < s.out_h(); ++oy) {
      for (std::int64_t ox = 0; ox < s.out_w(); ++ox) {
        for (std::int64_t c = 0; c < s.c; ++c) {
          const std::int64_t out = ((n * s.out_h() + oy) * s.out_w() + ox) * s.c + c;
          const std::int64_t from = winner_of(s, x, n, c, oy, ox);
          if (from < 0) {
            ASSERT_EQ(y[out], -std::numeric_limits<T>::infinity());
            ASSERT_EQ(y_relu[out], y[out]);  // a ReLU before changes nothing
            continue;
          }
          ASSERT_EQ(y[out], x[from]);
          ASSERT_EQ(y_relu[out], std::max(x[from], T{0}));
          wanted[from] += dy[out];
          if (x[from] > 0) wanted_relu[from] += dy[out];
        }
      }
    }
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(dx[i], wanted[i], 1e-6) << "at " << i;
    ASSERT_NEAR(dx_relu[i], wanted_relu[i], 1e-6) << "at " << i;
  }
}

class MaxPool2dOf : public testing::TestWithParam<Pool2dShape> {};

TEST_P(MaxPool2dOf, EqualsTheDefinitionInF32) {
  check<float>(GetParam());
}
TEST_P(MaxPool2dOf, EqualsTheDefinitionInF64) {
  check<double>(GetParam());
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Shapes, MaxPool2dOf, testing::Values(
    Pool2dShape{.n = 3, .c = 32, .h = 14, .w = 14, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2},
    Pool2dShape{.n = 2, .c = 5, .h = 7, .w = 9, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2},
    Pool2dShape{.n = 2, .c = 11, .h = 7, .w = 6, .kh = 3, .kw = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
    Pool2dShape{.n = 1, .c = 17, .h = 9, .w = 9, .kh = 3, .kw = 2, .stride_h = 1, .stride_w = 1},
    Pool2dShape{.n = 1, .c = 1, .h = 8, .w = 8, .kh = 2, .kw = 2, .stride_h = 3, .stride_w = 3},
    Pool2dShape{.n = 1, .c = 3, .h = 8, .w = 8, .kh = 2, .kw = 3, .stride_h = 2, .stride_w = 2, .dilation_h = 3, .dilation_w = 2},
    Pool2dShape{.n = 1, .c = 9, .h = 6, .w = 7, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2, .ceil_mode = true},
    Pool2dShape{.n = 1, .c = 9, .h = 1, .w = 5, .kh = 2, .kw = 2, .stride_h = 1, .stride_w = 1, .pad_h = 1, .dilation_h = 2},
    Pool2dShape{.n = 2, .c = 9, .h = 2, .w = 2, .kh = 3, .kw = 3, .stride_h = 3, .stride_w = 3, .ceil_mode = true},
    Pool2dShape{.n = 1, .c = 4, .h = 20, .w = 20, .kh = 20, .kw = 20, .stride_h = 20, .stride_w = 20}));
// clang-format on

// torch.nn.functional.max_pool2d gives these sizes.
TEST(MaxPool2d, SizesArePyTorchs) {
  EXPECT_EQ((Pool2dShape{.h = 7, .w = 7, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2}.out_h()),
            3);
  EXPECT_EQ((Pool2dShape{
                .h = 7, .w = 7, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2, .ceil_mode = true}
                 .out_h()),
            4);
  // The last window would start in the right padding, and is left out.
  EXPECT_EQ((Pool2dShape{.h = 5,
                         .w = 5,
                         .kh = 2,
                         .kw = 2,
                         .stride_h = 3,
                         .stride_w = 3,
                         .pad_h = 1,
                         .pad_w = 1,
                         .ceil_mode = true}
                 .out_h()),
            2);
  // A window that is larger than the image hangs over, too.
  const Pool2dShape larger{.h = 2, .w = 2, .kh = 3, .kw = 3, .stride_h = 3, .stride_w = 3};
  EXPECT_EQ(larger.out_h(), 0);
  EXPECT_EQ((Pool2dShape{
                .h = 2, .w = 2, .kh = 3, .kw = 3, .stride_h = 3, .stride_w = 3, .ceil_mode = true}
                 .out_h()),
            1);
}

// As in PyTorch, whose loop takes each NaN that it meets.
TEST(MaxPool2d, NaNWinsAndTheLastNaNGetsTheGradient) {
  for (const std::int64_t channels : {1, 19}) {  // whole vectors and what is left of them
    const Pool2dShape s{
        .n = 1, .c = channels, .h = 1, .w = 5, .kh = 1, .kw = 5, .stride_h = 1, .stride_w = 5};
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> x;
    for (const float value : {1.0F, nan, 9.0F, nan, 10.0F}) {
      x.insert(x.end(), static_cast<std::size_t>(channels), value);
    }
    std::vector<float> y(static_cast<std::size_t>(channels));
    std::vector<std::uint16_t> winner(static_cast<std::size_t>(channels));
    max_pool2d_forward(s, x.data(), y.data(), winner.data());
    for (std::size_t c = 0; c < y.size(); ++c) {
      EXPECT_TRUE(std::isnan(y[c])) << c;
      EXPECT_EQ(winner[c], 3) << c;
    }
  }
}

}  // namespace
}  // namespace dl::kernels
