#include "core/base/deadline.h"

#include <gtest/gtest.h>

namespace dl {
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

}  // namespace
}  // namespace dl
