#include "collectives/waiting/wait_policy.h"

#include <gtest/gtest.h>

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;

TEST(WaitPolicy, SpinsIfEachRankHasACore) {
  EXPECT_FALSE(wait_policy(2, 2, 2).yields);
  EXPECT_FALSE(wait_policy(1, 1, 8).yields);
  EXPECT_GE(wait_policy(2, 2, 2).spin, 100us);
}

TEST(WaitPolicy, SpinsIfEachRankIsBoundToACoreOfItsOwn) {
  EXPECT_FALSE(wait_policy(8, 1, 8).yields);
}

TEST(WaitPolicy, YieldsAndSoonSleepsIfOversubscribed) {
  EXPECT_TRUE(wait_policy(4, 2, 2).yields);
  EXPECT_LE(wait_policy(4, 2, 2).spin, 100us);
}

}  // namespace
}  // namespace dl::collectives
