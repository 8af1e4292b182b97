#include "launcher/frontend/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dl::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(JobState, SaysWhereEachRankStandsAndHowEarlierAttemptsEnded) {
  const JobState::Time begin{};
  JobState state;
  EXPECT_TRUE(state.page(begin).empty());
  state.attempt_began(0, {2, 3, 4}, begin);
  for (const int rank : {2, 3}) {
    state.rank_changed({.what = RankNews::What::kStarted, .rank = rank, .pid = 40 + rank}, begin);
  }
  EXPECT_THAT(state.page(begin + 1500ms),
              ElementsAre("attempt 0, which began 1.5 s ago: rank 4 is being started; ranks 2-3 "
                          "run"));
  state.rank_changed({.what = RankNews::What::kEnded, .rank = 3, .pid = 43, .status = 9}, begin);
  EXPECT_EQ(state.ranks()[1].status, 9);
  state.attempt_began(1, {2, 3, 4}, begin + 3s);
  // One node may begin before another's word on the last attempt has come.
  state.attempt_ended({.exit_code = 137, .page = {"rank 3 was killed", "more"}, .attempt = 0},
                      begin + 2s);
  state.rank_changed({.what = RankNews::What::kStarted, .rank = 9}, begin);  // not in the job
  EXPECT_THAT(state.page(begin + 4s),
              ElementsAre("attempt 0 ended 2.0 s ago: rank 3 was killed",
                          "attempt 1, which began 1.0 s ago: ranks 2-4 are being started"));
}

TEST(JobState, HasTheRanksOfAllNodes) {
  JobState state;
  state.attempt_began(0, {2, 3}, {});
  state.attempt_began(0, {0, 1}, {});
  ASSERT_EQ(state.ranks().size(), 4U);
  EXPECT_EQ(state.ranks()[3].rank, 3);
  EXPECT_EQ(state.events().size(), 1U);
}

TEST(JobState, RemembersABoundedNumberOfEvents) {
  JobState state;
  for (int attempt = 0; attempt < 5000; ++attempt) state.attempt_began(attempt, {0}, {});
  EXPECT_EQ(state.events().size(), JobState::kMostEvents);
  EXPECT_EQ(state.events().back().attempt, 4999);
}

}  // namespace
}  // namespace dl::launcher
