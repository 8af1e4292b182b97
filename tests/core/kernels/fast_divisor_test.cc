#include "core/kernels/fast_divisor.h"

#include <gtest/gtest.h>

#include <vector>

namespace dl::kernels {
namespace {

TEST(FastDivisor, DividesAsTheHardwareDoes) {
  constexpr std::uint32_t kMost = (std::uint32_t{1} << 31) - 1;
  std::vector<std::uint32_t> divisors = {kMost, kMost - 1, 1u << 30, (1u << 30) + 1, 641, 6700417};
  for (std::uint32_t d = 1; d < 200; ++d) divisors.push_back(d);
  for (const std::uint32_t d : divisors) {
    const FastDivisor by(d);
    EXPECT_EQ(by.divisor(), d);
    for (std::uint32_t q = 0; q < 50; ++q) {
      for (const std::uint64_t value :
           {std::uint64_t{q} * d, std::uint64_t{q} * d + d - 1, std::uint64_t{kMost} - q}) {
        if (value > kMost) continue;
        const auto v = static_cast<std::uint32_t>(value);
        ASSERT_EQ(by.divide(v), v / d) << v << " / " << d;
      }
    }
  }
  EXPECT_EQ(FastDivisor().divide(12345), 12345u);
}

}  // namespace
}  // namespace dl::kernels
