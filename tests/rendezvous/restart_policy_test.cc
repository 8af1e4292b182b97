#include "rendezvous/first_cause/restart_policy.h"

#include <gtest/gtest.h>

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

std::chrono::milliseconds delay_after(RestartPolicy& policy, std::chrono::milliseconds ran) {
  const Restart restart = policy.decide({.exit_code = 1, .ran = ran});
  EXPECT_TRUE(restart.again);
  return restart.delay;
}

TEST(RestartPolicy, CountsOnceAJob) {
  RestartPolicy policy(2);
  EXPECT_EQ(policy.decide({.ran = 1h}).number, 1);
  EXPECT_EQ(policy.decide({.ran = 1h}).number, 2);
  EXPECT_FALSE(policy.decide({.ran = 1h}).again);
  EXPECT_FALSE(RestartPolicy().decide({.ran = 1h}).again);
}

TEST(RestartPolicy, WaitsFromTheThirdQuickFailureInARowOn) {
  RestartPolicy policy(100);
  EXPECT_EQ(delay_after(policy, 10ms), 0s);
  EXPECT_EQ(delay_after(policy, 4999ms), 0s);
  EXPECT_EQ(delay_after(policy, 10ms), 1s);
  EXPECT_EQ(delay_after(policy, 10ms), 2s);
  EXPECT_EQ(delay_after(policy, 10ms), 4s);
  EXPECT_EQ(delay_after(policy, 10ms), 4s);
  EXPECT_EQ(delay_after(policy, 5s), 0s);
  EXPECT_EQ(delay_after(policy, 10ms), 0s);
}

TEST(RestartPolicy, FailuresThatWouldRepeatOrAreFinalEndTheJob) {
  for (const int code : {2, 126, 127}) {
    EXPECT_FALSE(RestartPolicy(9).decide({.exit_code = code}).again) << code;
  }
  EXPECT_FALSE(RestartPolicy(9).decide({.exit_code = 1, .is_final = true}).again);
  EXPECT_TRUE(RestartPolicy(9).decide({.exit_code = 137}).again);
}

}  // namespace
}  // namespace dl::rendezvous
