#include "nn/parallel/reducer/overlap.h"

#include <gtest/gtest.h>

namespace dl::nn::parallel {
namespace {

using std::chrono::milliseconds;

Interval interval(int begin, int end) {
  const std::chrono::steady_clock::time_point zero{std::chrono::hours(1)};
  return {zero + milliseconds(begin), zero + milliseconds(end)};
}

TEST(UnionLength, CountsOverlappingTimeOnce) {
  const Interval some[] = {interval(0, 10), interval(5, 8), interval(9, 12), interval(20, 21)};
  EXPECT_EQ(union_length(some), milliseconds(13));
  EXPECT_EQ(union_length({}), milliseconds(0));
}

TEST(OverlapStats, PrintsOneLine) {
  const OverlapStats stats{.steps = 1,
                           .communication = std::chrono::microseconds(12300),
                           .exposed = std::chrono::microseconds(1107)};
  EXPECT_EQ(stats.str(), "all-reduce 12.3 ms, 91 % hidden");
}

TEST(OverlapStats, PrintsMeansOfSeveralSteps) {
  OverlapStats sum;
  sum += {.steps = 1, .bytes = 4, .communication = milliseconds(10), .exposed = milliseconds(10)};
  sum += {.steps = 1, .bytes = 4, .communication = milliseconds(30), .exposed = milliseconds(0)};
  EXPECT_EQ(sum.str(), "all-reduce 20.0 ms, 75 % hidden");
  EXPECT_EQ(sum.bytes, 8u);
}

TEST(OverlapStats, StaysBetweenNothingAndAll) {
  EXPECT_EQ(OverlapStats{}.hidden(), 1);
  const OverlapStats late{.steps = 1, .communication = milliseconds(1), .exposed = milliseconds(2)};
  EXPECT_EQ(late.hidden(), 0);
}

}  // namespace
}  // namespace dl::nn::parallel
