#include "core/kernels/cpu/loss/loss_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/kernels/random_values.h"

namespace dl::kernels {
namespace {

template <typename T>
class LossOf : public testing::Test {
 protected:
  static constexpr double kUnit = sizeof(T) == 4 ? 1e-6 : 1e-14;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LossOf, Types);

TYPED_TEST(LossOf, CrossEntropyEqualsTheDefinition) {
  using T = TypeParam;
  for (const auto& [rows, classes] : {std::pair{8, 3}, {64, 10}, {5, 1}, {7, 33}, {300, 1000}}) {
    std::vector<T> logits = random_values<T>(rows * classes);
    for (T& v : logits) v *= 20;
    std::vector<std::int64_t> target(static_cast<std::size_t>(rows));
    for (int r = 0; r < rows; ++r) target[r] = r % 4 == 3 ? kIgnoreIndex : (r * 7) % classes;

    double sum = 0;
    int counted = 0;
    std::vector<double> gradient(logits.size(), 0.0);
    for (int r = 0; r < rows; ++r) {
      if (target[r] == kIgnoreIndex) continue;
      double total = 0;
      for (int c = 0; c < classes; ++c)
        total += std::exp(static_cast<double>(logits[r * classes + c]));
      for (int c = 0; c < classes; ++c) {
        gradient[r * classes + c] = std::exp(static_cast<double>(logits[r * classes + c])) / total;
      }
      sum += std::log(total) - logits[r * classes + target[r]];
      gradient[r * classes + target[r]] -= 1;
      ++counted;
    }

    std::vector<T> row_sums(static_cast<std::size_t>(2 * rows));
    const auto result =
        cross_entropy_forward(rows, classes, logits.data(), target.data(), row_sums.data());
    EXPECT_EQ(result.bad_row, -1);
    EXPECT_EQ(result.counted, counted);
    EXPECT_NEAR(result.loss, sum / counted, 20 * this->kUnit);
    std::vector<T> d(logits.size(), T{7});
    cross_entropy_backward(rows, classes, logits.data(), target.data(), row_sums.data(), T{0.5},
                           d.data());
    for (std::size_t i = 0; i < d.size(); ++i) {
      ASSERT_NEAR(d[i], 0.5 * gradient[i], 10 * this->kUnit) << "at " << i;
    }
  }
}

TYPED_TEST(LossOf, CrossEntropyNamesTheFirstBadRow) {
  const std::vector<TypeParam> logits(12, TypeParam{1});
  std::vector<TypeParam> row_sums(8);
  const std::int64_t too_large[] = {0, kIgnoreIndex, 3, -1};
  EXPECT_EQ(cross_entropy_forward(4, 3, logits.data(), too_large, row_sums.data()).bad_row, 2);
  const std::int64_t negative[] = {0, 1, 2, -1};
  EXPECT_EQ(cross_entropy_forward(4, 3, logits.data(), negative, row_sums.data()).bad_row, 3);
}

TYPED_TEST(LossOf, CrossEntropyOfNothingIsNaN) {
  const std::vector<TypeParam> logits(3, TypeParam{1});
  TypeParam row_sums[2];
  EXPECT_TRUE(std::isnan(cross_entropy_forward(0, 3, logits.data(), nullptr, row_sums).loss));
  EXPECT_TRUE(std::isnan(cross_entropy_forward(1, 3, logits.data(), &kIgnoreIndex, row_sums).loss));
}

TYPED_TEST(LossOf, CrossEntropyOfLargeLogitsDoesNotOverflow) {
  const TypeParam logits[] = {1000, 999, -1000};
  const std::int64_t target = 1;
  TypeParam row_sums[2];
  EXPECT_NEAR(cross_entropy_forward(1, 3, logits, &target, row_sums).loss, 1.31326168751822, 1e-6);
}

// Their common part is far above what is left of them.
TYPED_TEST(LossOf, CrossEntropyKeepsItsPrecisionWhateverTheLogitsShare) {
  using T = TypeParam;
  std::vector<T> logits(20, T{1e7});
  logits[3] += T{1};
  const std::int64_t target = 3;
  T row_sums[2];
  const double total = 19 + std::exp(1.0);
  EXPECT_NEAR(cross_entropy_forward(1, 20, logits.data(), &target, row_sums).loss,
              std::log(total) - 1, 1e-6);
  std::vector<T> d(20);
  cross_entropy_backward(1, 20, logits.data(), &target, row_sums, T{1}, d.data());
  EXPECT_NEAR(d[3], std::exp(1.0) / total - 1, 1e-6);
  EXPECT_NEAR(d[0], 1 / total, 1e-6);
}

TYPED_TEST(LossOf, CrossEntropyOfANaNIsNaNAtAnyIndex) {
  using T = TypeParam;
  constexpr std::int64_t kClasses = 37;  // whole vectors and a rest
  for (std::int64_t at = 0; at < kClasses; ++at) {
    std::vector<T> logits(kClasses, T{1});
    logits[static_cast<std::size_t>(at)] = std::numeric_limits<T>::quiet_NaN();
    const std::int64_t target = 0;
    T row_sums[2];
    EXPECT_TRUE(
        std::isnan(cross_entropy_forward(1, kClasses, logits.data(), &target, row_sums).loss))
        << "at " << at;
    std::vector<T> d(kClasses);
    cross_entropy_backward(1, kClasses, logits.data(), &target, row_sums, T{1}, d.data());
    for (const T v : d) EXPECT_TRUE(std::isnan(v)) << "at " << at;
  }
}

TYPED_TEST(LossOf, MeanSquaredErrorEqualsTheDefinition) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 7, 8, 100, 40000}) {
    const auto x = random_values<T>(n, 1);
    const auto y = random_values<T>(n, 2);
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double e = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      sum += e * e;
    }
    EXPECT_NEAR(mse_forward(n, x.data(), y.data()), sum / static_cast<double>(n), 10 * this->kUnit);
    std::vector<T> d(x.size());
    mse_backward(n, x.data(), y.data(), T{3}, d.data());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(d[i], 3 * (x[i] - y[i]), this->kUnit);
  }
  EXPECT_TRUE(std::isnan(mse_forward(0, static_cast<const T*>(nullptr), nullptr)));
}

}  // namespace
}  // namespace dl::kernels
