#include "rendezvous/program/agent_watch.h"

#include <gtest/gtest.h>

#include "rendezvous/membership/standstill.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;
using dlrun::rendezvous::Agent;

class AgentWatchTest : public ::testing::Test {
 protected:
  // What is heard in `span`, looked at every second; the last of it.
  std::optional<Agent> pass(std::chrono::seconds span) {
    std::optional<Agent> last;
    for (auto passed = 0s; passed < span; passed += 1s) {
      now_ += 1s;
      if (auto news = watch_.on_time(now_)) last = news;
    }
    return last;
  }

  bool is_stopped_ = false;
  AgentWatch::Time now_ = Deadline::Clock::now();
  AgentWatch watch_{
      {.named_after = 5s, .timeout = 600s, .is_stopped = [this] { return is_stopped_; }}, now_};
};

TEST_F(AgentWatchTest, OneThatTurnsIsNotSpokenOf) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(pass(4s));
    EXPECT_FALSE(watch_.on_word(Agent::TURNS, now_));
  }
}

TEST_F(AgentWatchTest, ASilentAgentIsNamedAndAtTheDeadlineTooLate) {
  for (const bool is_stopped : {true, false}) {
    is_stopped_ = is_stopped;
    EXPECT_FALSE(pass(4s));
    const std::optional<Agent> news = pass(1s);
    ASSERT_TRUE(news);
    EXPECT_EQ(news->state(), is_stopped ? Agent::STOPPED : Agent::STUCK);
    EXPECT_EQ(news->seconds(), 5);
    EXPECT_FALSE(pass(4s));
    EXPECT_EQ(pass(1s).value().seconds(), 10);
    const std::optional<Agent> on = watch_.on_word(Agent::TURNS, now_);
    ASSERT_TRUE(on);
    EXPECT_EQ(on->state(), Agent::TURNS);
    EXPECT_EQ(on->seconds(), 10);
    EXPECT_FALSE(watch_.on_word(Agent::TURNS, now_));
    pass(599s);
    EXPECT_FALSE(watch_.too_late(now_));
    pass(1s);
    EXPECT_EQ(watch_.too_late(now_), is_stopped ? "its dlrun has been stopped for 600 s"
                                                : "its dlrun has not run its event loop for 600 s");
    watch_.on_word(Agent::TURNS, now_);
  }
}

TEST_F(AgentWatchTest, OneThatItsUserHasSuspendedIsNeverTooLate) {
  is_stopped_ = true;
  EXPECT_FALSE(watch_.on_word(Agent::SUSPENDED, now_));
  EXPECT_EQ(pass(5s).value().state(), Agent::SUSPENDED);
  pass(10'000s);
  EXPECT_FALSE(watch_.too_late(now_));
  EXPECT_EQ(watch_.on_word(Agent::TURNS, now_).value().seconds(), 10'005);
}

TEST_F(AgentWatchTest, TimeInWhichTheHelperStoodStillDoesNotCount) {
  now_ += 700s;
  watch_.forgive(699s, now_);
  EXPECT_FALSE(watch_.on_time(now_));
  EXPECT_FALSE(watch_.too_late(now_));
}

TEST(StandstillTest, KnowsWhatIsLongerThanItLooks) {
  Standstill own(2s, 1s);
  auto now = Deadline::Clock::now();
  EXPECT_EQ(own.look(now, 7s), 0s) << "suspended before it began";
  EXPECT_EQ(own.look(now += 2900ms, 7s), 0s);
  EXPECT_FALSE(own.news(0s));
  EXPECT_EQ(own.look(now += 14s, 7s), 12s);
  EXPECT_EQ(own.news(5s), 12s);
  EXPECT_FALSE(own.news(5s)) << "it is said once";
  EXPECT_EQ(own.look(now += 1s, 7s), 0s);
  EXPECT_EQ(own.recent(now, 5s, 10s), 12s);
  EXPECT_FALSE(own.recent(now, 13s, 10s));
  EXPECT_FALSE(own.recent(now + 10s, 5s, 10s));
  EXPECT_EQ(own.look(now += 1s, 47s), 0s) << "this clock left the suspension out";
  EXPECT_EQ(own.news(5s), 40s);
}

}  // namespace
}  // namespace dl::rendezvous
