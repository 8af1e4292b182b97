#include "core/base/deadline.h"

#include <gtest/gtest.h>

namespace dl::detail {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, NeverNeitherPassesNorEndsAPoll) {
  EXPECT_FALSE(Deadline::never().has_passed());
  EXPECT_EQ(Deadline::never().poll_timeout(), -1);
  EXPECT_EQ(Deadline::never().left(), std::chrono::nanoseconds::max());
}

TEST(Deadline, SpanTooLongForTheClockIsNever) {
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds::max()).is_never());
}

TEST(Deadline, ZeroAndNegativeSpansHavePassed) {
  EXPECT_TRUE(Deadline::after(0ns).has_passed());
  EXPECT_TRUE(Deadline::after(-1s).has_passed());
  EXPECT_EQ(Deadline::after(-1s).left(), 0ns);
  EXPECT_EQ(Deadline::after(-1s).poll_timeout(), 0);
}

TEST(Deadline, PollTimeoutRoundsUpSoThatPollDoesNotSpin) {
  const Deadline deadline = Deadline::after(10s + 1us);
  const std::chrono::milliseconds timeout(deadline.poll_timeout());
  EXPECT_GE(timeout, deadline.left());
  EXPECT_LE(timeout, 10'001ms);
  EXPECT_EQ(Deadline::after(1h * 24 * 365).poll_timeout(), std::numeric_limits<int>::max());
}

TEST(Deadline, EarlierPicksTheEarlier) {
  const Deadline soon = Deadline::after(1s);
  EXPECT_EQ(Deadline::earlier(soon, Deadline::never()).when(), soon.when());
  EXPECT_EQ(Deadline::earlier(Deadline::never(), soon).when(), soon.when());
}

TEST(Spans, AddUpWithoutWrappingAround) {
  constexpr auto kMost = std::chrono::nanoseconds::max();
  EXPECT_EQ(saturating_add(1s, 2ms), 1002ms);
  EXPECT_EQ(saturating_add(kMost, 1ns), kMost);
  EXPECT_EQ(saturating_add(kMost - 1ns, 5s), kMost);
  EXPECT_EQ(saturating_add(kMost, -1s), kMost);
  EXPECT_EQ(saturating_add(std::chrono::nanoseconds::min(), -1s), std::chrono::nanoseconds::min());
}

// Gives up at once, as a wait does whose clock went on while the process was stopped.
struct Impatient {
  int waits = 0;
  void wait_until(int&, Deadline::Clock::time_point) { ++waits; }
};
void wait_for_change(Impatient& condition, int&) {
  ++condition.waits;
}

TEST(Deadline, IsAskedAgainAfterAWaitThatEndsTooEarly) {
  Impatient condition;
  int lock = 0;
  EXPECT_TRUE(
      wait_until(condition, lock, Deadline::after(1h), [&] { return condition.waits == 3; }));
  EXPECT_FALSE(wait_until(condition, lock, Deadline::after(-1s), [] { return false; }));
  EXPECT_EQ(condition.waits, 3);
}

}  // namespace
}  // namespace dl::detail
