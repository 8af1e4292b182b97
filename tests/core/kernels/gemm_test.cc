#include "core/kernels/cpu/linear/gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/kernels/random_values.h"

namespace dl::kernels {
namespace {

template <typename T>
void expect_product(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb,
                    bool accumulate, std::int64_t gap = 0) {
  const std::int64_t lda = (ta ? m : k) + gap;
  const std::int64_t ldb = (tb ? k : n) + gap;
  const std::int64_t ldc = n + gap;
  const auto a = random_values<T>((ta ? k : m) * lda, 1);
  const auto b = random_values<T>((tb ? n : k) * ldb, 2);
  auto c = random_values<T>(m * ldc, 3);
  const auto before = c;
  gemm(Gemm<T>{.m = m,
               .n = n,
               .k = k,
               .a = a.data(),
               .lda = lda,
               .transpose_a = ta,
               .b = b.data(),
               .ldb = ldb,
               .transpose_b = tb,
               .c = c.data(),
               .ldc = ldc,
               .accumulate = accumulate});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < ldc; ++j) {
      const std::int64_t at = i * ldc + j;
      if (j >= n) {
        ASSERT_EQ(c[at], before[at]) << "wrote into the gap";
        continue;
      }
      double sum = accumulate ? before[at] : 0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(a[ta ? p * lda + i : i * lda + p]) *
               static_cast<double>(b[tb ? j * ldb + p : p * ldb + j]);
      }
      ASSERT_NEAR(c[at], sum, (sizeof(T) == 4 ? 2e-6 : 1e-14) * std::sqrt(k + 1.0))
          << m << 'x' << n << 'x' << k << " at " << i << ',' << j;
    }
  }
}

template <typename T>
class GemmOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GemmOf, Types);

TYPED_TEST(GemmOf, EqualsTheDefinitionInAllTransposes) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const bool accumulate : {false, true}) {
        expect_product<TypeParam>(8, 30, 50, ta, tb, accumulate);
        expect_product<TypeParam>(30, 50, 8, ta, tb, accumulate);
        expect_product<TypeParam>(13, 17, 1, ta, tb, accumulate, 3);
        expect_product<TypeParam>(70, 65, 67, ta, tb, accumulate, 5);
      }
    }
  }
}

TYPED_TEST(GemmOf, TakesEveryRemainderOfRowsAndColumns) {
  for (std::int64_t m = 1; m <= 13; ++m) {
    for (const std::int64_t n : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33}) {
      expect_product<TypeParam>(m, n, 5, false, true, false);
    }
  }
}

TYPED_TEST(GemmOf, MatricesByAVector) {
  for (const std::int64_t k : {37, 64, 131, 400}) {
    for (const bool accumulate : {false, true}) {
      expect_product<TypeParam>(600, 1, k, false, true, accumulate, 3);
      expect_product<TypeParam>(600, 1, k, false, false, accumulate);
      expect_product<TypeParam>(600, 1, k, true, false, accumulate);
    }
  }
}

TYPED_TEST(GemmOf, EmptySumsClearOrKeep) {
  expect_product<TypeParam>(3, 4, 0, false, false, false);
  expect_product<TypeParam>(3, 4, 0, false, false, true);
  expect_product<TypeParam>(0, 4, 3, false, false, false);
  expect_product<TypeParam>(3, 0, 3, false, false, false);
}

TEST(SmallGemm, IsTakenForSmallProductsOnly) {
  EXPECT_TRUE(is_small({.m = 8, .n = 30, .k = 50}));
  EXPECT_FALSE(is_small({.m = 64, .n = 512, .k = 3136}));
  EXPECT_FALSE(is_small({.m = 1, .n = 1, .k = 513}));
}

}  // namespace
}  // namespace dl::kernels
