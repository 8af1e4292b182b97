#include "collectives/waiting/wait_policy.h"

#include <gtest/gtest.h>

#include <vector>

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

constexpr ProbeSchedule::Time kBegin{1000s};

// How long an operation has waited when it asks, looked at a second apart.
std::vector<int> asks_at(std::chrono::seconds timeout) {
  ProbeSchedule probes;
  std::vector<int> seconds;
  for (int waited = 0; std::chrono::seconds(waited) <= timeout; ++waited) {
    const ProbeSchedule::Time now = kBegin + std::chrono::seconds(waited);
    const bool is_next = now - kBegin >= probes.next(timeout, 5s);
    EXPECT_EQ(probes.are_due(kBegin, now, timeout, 5s), is_next);
    if (is_next) seconds.push_back(waited);
    EXPECT_EQ(probes.are_unanswered({}), !seconds.empty());
  }
  EXPECT_EQ(probes.next(timeout, 5s), std::chrono::nanoseconds::max());
  return seconds;
}

TEST(ProbeSchedule, AreAskedBeforeAWarningAndBeforeTheDeadline) {
  EXPECT_EQ(ProbeSchedule().next(600s, 5s), 4500ms);
  EXPECT_EQ(asks_at(600s), (std::vector<int>{5, 598}));
}

TEST(ProbeSchedule, OfAShortDeadlineAreAskedOnce) {
  EXPECT_EQ(ProbeSchedule().next(1s, 5s), 750ms);
  EXPECT_EQ(asks_at(4s), std::vector<int>{3});
  EXPECT_EQ(asks_at(7s), std::vector<int>{5});
}

TEST(ProbeSchedule, ThatComeLateAreAskedTogether) {
  ProbeSchedule probes;
  EXPECT_TRUE(probes.are_due(kBegin, kBegin + 599s, 600s, 5s));
  EXPECT_FALSE(probes.are_due(kBegin, kBegin + 600s, 600s, 5s));
}

TEST(ProbeSchedule, AreAnsweredByWhatComesAfterThemOnly) {
  ProbeSchedule probes;
  EXPECT_FALSE(probes.are_unanswered({}));
  ASSERT_TRUE(probes.are_due(kBegin, kBegin + 5s, 600s, 5s));
  EXPECT_TRUE(probes.are_unanswered(kBegin + 4s));
  EXPECT_FALSE(probes.are_unanswered(kBegin + 5s));
  // Another operation's question, asked later, leaves that answer what it is.
  ProbeSchedule others;
  ASSERT_TRUE(others.are_due(kBegin + 1s, kBegin + 6s, 600s, 5s));
  EXPECT_TRUE(others.are_unanswered(kBegin + 5s));
  EXPECT_FALSE(probes.are_unanswered(kBegin + 5s));
  // And the second one wants an answer of its own.
  ASSERT_TRUE(probes.are_due(kBegin, kBegin + 598s, 600s, 5s));
  EXPECT_TRUE(probes.are_unanswered(kBegin + 5s));
}

}  // namespace
}  // namespace dl::collectives
