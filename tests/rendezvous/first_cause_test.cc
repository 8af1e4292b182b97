#include "rendezvous/first_cause/first_cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RankEnd exited(int rank, int code) {
  return {.rank = rank, .pid = 100 + rank, .status = code << 8};
}
RankEnd follower(int rank, int blamed, Blame blame = Blame::kGone, int found_by = -1) {
  RankEnd end = exited(rank, 1);
  PeerFailure& failure = end.follows.emplace();
  failure.cause.blame = blame;
  failure.cause.rank = blamed;
  failure.cause.found_by = found_by < 0 ? rank : found_by;
  failure.cause.operation = "barrier #12";
  failure.cause.text = "barrier #12: rank " + std::to_string(blamed) + " is gone";
  return end;
}
RankEnd differing(int rank, const std::string& call, int blamed, int found_by) {
  RankEnd end = follower(rank, blamed, Blame::kMismatch, found_by);
  end.follows->call = call;
  return end;
}
int named(const FirstCause& cause) {
  return cause.finding() ? cause.finding()->rank : -1;
}
void answer(FirstCause& cause) {
  ASSERT_TRUE(cause.question());
  cause.goes_on(cause.question()->rank);
}

TEST(FirstCause, IsTheFirstFailureOfARankOnItsOwn) {
  FirstCause cause;
  cause.ended(exited(2, 0));
  EXPECT_FALSE(cause.finding());
  cause.ended(exited(1, 7));
  cause.ended(exited(0, 3));
  EXPECT_EQ(named(cause), 1);
  EXPECT_EQ(cause.finding()->exit_code, 7);
}

TEST(FirstCause, IsARankThatEndedWith0WithoutMpiFinalize) {
  FirstCause cause({}, OnFailure::kKeep);
  cause.ended(exited(1, 7));
  RankEnd left = exited(2, 0);
  left.left_mpi = true;
  cause.ended(left);
  EXPECT_EQ(named(cause), 1) << "rank 2 has failed, and outlives nothing";
  FirstCause alone;
  alone.ended(left);
  EXPECT_EQ(named(alone), 2);
  EXPECT_EQ(alone.finding()->exit_code, 1);
  EXPECT_EQ(left.how(), "ended with exit code 0 without MPI_Finalize");
}

TEST(FirstCause, IsARankThatCalledMpiAbort) {
  RankEnd end = exited(1, 0);
  end.aborted = -1;
  EXPECT_EQ(end.how(), "called MPI_Abort with -1");
  FirstCause cause;
  cause.ended(end);
  EXPECT_EQ(named(cause), 1);
  EXPECT_EQ(cause.finding()->exit_code, 255);
}

// Rank 1 has aborted a group and reported that, rank 2 ended because of it, and rank 3 because of
// rank 2.
TEST(FirstCause, IsARankThatBrokeAGroupItselfInACircleOfBlame) {
  FirstCause cause;
  cause.ended(follower(3, 2));
  cause.ended(follower(2, 1, Blame::kBroke, 1));
  RankEnd first = follower(1, 1, Blame::kBroke);
  first.follows->cause.text = "group 'part' was aborted by rank 1: it gives up\nand more";
  cause.ended(first);
  EXPECT_EQ(named(cause), 1);
  EXPECT_THAT(cause.finding()->notes,
              ElementsAre("  group 'part' was aborted by rank 1: it gives up"));
}

TEST(FirstCause, OfAJobThatGoesOnIsTheFirstThatNoRankOutlives) {
  FirstCause cause({}, OnFailure::kKeep);
  cause.ended(exited(1, 7));
  EXPECT_EQ(named(cause), 1);
  cause.ended(exited(0, 0));
  EXPECT_EQ(named(cause), -1) << "rank 0 has outlived it";
  cause.ended(follower(3, 0));
  answer(cause);
  EXPECT_EQ(named(cause), 0) << "it ended with 0 while rank 3 needed it";
  cause.ended(exited(2, 0));
  EXPECT_EQ(named(cause), -1);
  cause.ended(exited(4, 5));
  cause.ended(exited(5, 6));
  EXPECT_EQ(named(cause), 4);
  EXPECT_EQ(cause.finding()->exit_code, 5);
}

TEST(FirstCause, OfAJobThatGoesOnIsNoRankThatWaits) {
  FirstCause cause({}, OnFailure::kKeep);
  cause.ended(exited(0, 0));
  cause.waits(1, {.rank = 0, .operation = "barrier #1"});
  EXPECT_FALSE(cause.question());
  EXPECT_FALSE(cause.finding());
}

TEST(FirstCause, TheOnesThatGoOnAreTold) {
  RankEnd first = exited(1, 7);
  first.text = "rank 1 ended";
  RankEnd second = follower(2, 1);
  second.text = "rank 2 ended";
  EXPECT_EQ(goes_on_without({first}, 4), "rank 1 ended; 3 ranks go on (--on-failure keep)");
  EXPECT_EQ(goes_on_without({exited(0, 0), first, second}, 4),
            "rank 2 ended, because of rank 1 in barrier #12; 1 rank goes on (--on-failure keep)");
  EXPECT_EQ(goes_on_without({exited(0, 0), exited(3, 0), second, first}, 4), "");
  EXPECT_EQ(
      went_on_without({exited(0, 0), first, second, exited(3, 0)}),
      "the job went on without ranks 1-2, which failed; ranks 0 and 3 ended with exit code 0");
  EXPECT_EQ(went_on_without({exited(0, 0), exited(1, 0)}), "");
}

// The text of the line that says which rank has ended while others go on.
std::string last_end(RankEnd end) {
  end.text = "it ended";
  const std::string line = goes_on_without({std::move(end)}, 2);
  return line.substr(0, line.find("; "));
}

TEST(FirstCause, OfAMismatchIsNotKnownToTheRanksThatFindIt) {
  // Rank 1 is the odd one: rank 0 and rank 1 found it, and rank 3 heard of it from either.
  const std::string here = "all_reduce #5 (f32[8] sum)";
  const std::string there = "broadcast #5 (f32[8] from root 0)";
  EXPECT_EQ(last_end(differing(3, here, 0, 1)),
            "it ended, because of a mismatch, having called " + here);
  EXPECT_EQ(last_end(differing(1, there, 0, 1)),
            "it ended, because of a mismatch, having called " + there);
  EXPECT_EQ(last_end(differing(0, here, 0, 1)),
            "it ended, because of a mismatch, having called " + here)
      << "another rank blames it";
  EXPECT_EQ(last_end(differing(2, "", 0, 1)), "it ended, because of a mismatch");
}

TEST(FirstCause, OfALostConnectionIsNotTheRankAtTheOtherEnd) {
  for (const Blame blame : {Blame::kLink, Blame::kUnreachable}) {
    EXPECT_EQ(last_end(follower(2, 1, blame)),
              "it ended, because of a lost connection to rank 1 in barrier #12");
  }
}

TEST(FirstCause, OfACrashIsNotTheGroupThatBrokeBefore) {
  RankEnd end = follower(2, 1);
  end.status = SIGSEGV;
  EXPECT_EQ(last_end(end), "it ended");
  end.status = SIGABRT;
  EXPECT_EQ(last_end(end), "it ended, because of rank 1 in barrier #12") << "an uncaught error";
}

TEST(FirstCause, OfASignalCountsAs128AndItsNumber) {
  FirstCause cause;
  cause.ended({.rank = 0, .pid = 1, .status = SIGKILL});
  EXPECT_EQ(cause.finding()->exit_code, 137);
}

TEST(FirstCause, IsARankThatIsKilledAlthoughItHasBlamedAnotherOne) {
  FirstCause cause;
  cause.ended(follower(0, 1));
  RankEnd killed = follower(2, 1);
  killed.status = SIGKILL;
  cause.ended(killed);
  EXPECT_EQ(named(cause), 2);
  EXPECT_EQ(cause.finding()->exit_code, 137);
}

TEST(FirstCause, IsNotAFollowerHoweverLateTheRankThatItBlames) {
  FirstCause cause;
  cause.ended(follower(0, 1));
  cause.ended(follower(2, 1));
  ASSERT_TRUE(cause.question());
  EXPECT_EQ(cause.question()->rank, 1);
  EXPECT_GE(cause.question()->patience, 5s) << "its connections have closed: it may take a while";
  EXPECT_FALSE(cause.finding());
  cause.ended(exited(1, 4));
  EXPECT_EQ(named(cause), 1);
  EXPECT_FALSE(cause.question());
}

TEST(FirstCause, IsAtTheEndOfAChainInWhateverOrderItsEndsCome) {
  // 3 blames 2, 2 blames 1, 1 blames 0, which is the cause.
  for (const std::vector<int>& order : {std::vector{3, 2, 1, 0}, {1, 2, 3, 0}, {2, 0, 1, 3}}) {
    FirstCause cause;
    for (const int rank : order) {
      cause.ended(rank == 0 ? RankEnd{.rank = 0, .pid = 1, .status = SIGKILL}
                            : follower(rank, rank - 1));
    }
    EXPECT_EQ(named(cause), 0);
  }
}

TEST(FirstCause, IsTheFollowerIfTheBlamedRankGoesOn) {
  FirstCause cause;
  cause.ended(follower(0, 1));
  answer(cause);
  EXPECT_EQ(named(cause), 0);
  EXPECT_EQ(cause.finding()->headline, "");
  EXPECT_THAT(cause.finding()->notes,
              ElementsAre("  it says that it failed because of rank 1 in barrier #12, which has "
                          "not ended on its own",
                          "    | barrier #12: rank 1 is gone"));
}

TEST(FirstCause, OfATimeoutNamesTheRankThatIsMissingFirst) {
  FirstCause cause;
  cause.ended(follower(2, 1, Blame::kMissing, 0));
  EXPECT_LE(cause.question()->patience, 500ms) << "a rank that is late need not be ending";
  cause.ended(follower(0, 1, Blame::kMissing, 0));
  answer(cause);
  EXPECT_EQ(named(cause), 0) << "it found it";
  EXPECT_EQ(cause.finding()->exit_code, 1);
  EXPECT_EQ(cause.finding()->headline,
            "rank 1 had not done its part in barrier #12 in time and has not ended on its own; "
            "rank 0, which waited for it, ended with exit code 1");
  EXPECT_THAT(cause.finding()->notes,
              ElementsAre("  rank 0 says:", "    | barrier #12: rank 1 is gone"));
}

// The rank that gave it up has not ended.
TEST(FirstCause, OfATimeoutIsTheMissingRankIfItAloneFails) {
  FirstCause cause;
  cause.ended(follower(1, 1, Blame::kMissing, 0));
  answer(cause);
  EXPECT_EQ(named(cause), 1);
  EXPECT_EQ(cause.finding()->headline, "");
}

TEST(FirstCause, ARankThatIsBlamedFollowsTheOneThatFoundIt) {
  // Rank 1 was late, and fails when it hears that the others have given it up.
  FirstCause cause;
  cause.ended(follower(1, 1, Blame::kMissing, 0));
  ASSERT_TRUE(cause.question());
  EXPECT_EQ(cause.question()->rank, 0);
  cause.ended(follower(0, 1, Blame::kMissing, 0));
  EXPECT_EQ(named(cause), 0);
  EXPECT_EQ(cause.finding()->headline,
            "rank 1 had not done its part in barrier #12 in time; rank 0, which waited for it, "
            "ended with exit code 1");
}

TEST(FirstCause, OfALostConnectionIsNeitherOfItsRanks) {
  FirstCause cause;
  cause.ended(follower(1, 1, Blame::kLink, 0));
  cause.ended(follower(0, 1, Blame::kLink, 0));
  ASSERT_TRUE(cause.finding());
  EXPECT_THAT(cause.finding()->headline,
              ::testing::StartsWith("ranks 0-1 lost a connection: barrier #12: "));
}

// Rank 0 looks why its connection is reset only when rank 1, which found it so, has ended.
TEST(FirstCause, OfALostConnectionIsNoRankThatIsCalledGone) {
  for (const bool finder_first : {false, true}) {
    FirstCause cause({"a", "b"});
    if (finder_first) cause.ended(follower(1, 0, Blame::kLink, 1));
    cause.ended(follower(0, 1, Blame::kGone));
    if (!finder_first) cause.ended(follower(1, 0, Blame::kLink, 1));
    ASSERT_TRUE(cause.finding());
    EXPECT_THAT(cause.finding()->headline,
                ::testing::StartsWith("ranks 0-1 lost a connection: barrier #12: "));
    EXPECT_EQ(named(cause), 1);
  }
}

TEST(FirstCause, IsARankThatHearsFromTheOthersThatItHasLeft) {
  FirstCause cause;
  cause.ended(follower(0, 1, Blame::kLeft));
  RankEnd left = follower(1, 1, Blame::kLeft, 0);
  left.status = 5 << 8;
  cause.ended(left);
  EXPECT_EQ(named(cause), 1);
  EXPECT_EQ(cause.finding()->exit_code, 5);
}

TEST(FirstCause, IsARankThatEndsWith0WhileOthersNeedIt) {
  FirstCause cause;
  cause.ended(exited(1, 0));
  EXPECT_FALSE(cause.question()) << "a rank may be done before the others";
  cause.ended(follower(0, 1, Blame::kLeft));
  cause.ended(follower(2, 1, Blame::kLeft, 0));
  cause.ended(follower(3, 2));  // in a circle, and knows nothing of rank 1
  EXPECT_EQ(cause.question()->rank, kAnyRank);
  answer(cause);
  EXPECT_EQ(named(cause), 1);
  EXPECT_EQ(cause.finding()->exit_code, 1);
  EXPECT_EQ(cause.finding()->clause, " while ranks 0 and 2 were waiting for it in barrier #12");
}

TEST(FirstCause, IsARankThatEndsWith0BeforeTheGroupIsMade) {
  for (const bool ends_first : {true, false}) {
    FirstCause cause;
    if (ends_first) cause.ended(exited(1, 0));
    cause.waits(0, {.rank = 1, .operation = "the making of group 'world'"});
    if (!ends_first) cause.ended(exited(1, 0));
    answer(cause);
    EXPECT_EQ(named(cause), 1);
    EXPECT_EQ(cause.finding()->clause,
              " while rank 0 was waiting for it in the making of group 'world'");
  }
}

TEST(FirstCause, IsNoRankThatOthersHaveStoppedWaitingFor) {
  FirstCause cause;
  cause.waits(0, {.rank = 1, .operation = "the making of group 'world'"});
  cause.waits(0, {.rank = -1, .operation = {}});
  cause.ended(exited(1, 0));
  EXPECT_FALSE(cause.question());
  EXPECT_FALSE(cause.finding());
}

TEST(FirstCause, OfAMismatchIsTheOddRankFoundByAnyRank) {
  for (const int found_by : {0, 1, 2, 3}) {
    FirstCause cause;
    for (const int rank : {1, 0, 3, 2}) {
      cause.ended(differing(rank, rank == 3 ? "broadcast #4" : "barrier #4", found_by == 3 ? 1 : 3,
                            found_by));
    }
    answer(cause);
    EXPECT_EQ(named(cause), 3);
    EXPECT_THAT(cause.finding()->notes,
                ElementsAre("  rank 3 called broadcast #4, ranks 0-2 called barrier #4"));
  }
}

// Rank 3 has heard of the mismatch, and ended when rank 0 left another group because of it.
TEST(FirstCause, OfAMismatchIsTheOddRankHoweverItEnds) {
  FirstCause cause;
  cause.ended(differing(0, "barrier #4", 3, 1));
  RankEnd left = follower(3, 0);
  left.follows->call = "broadcast #4";
  cause.ended(left);
  cause.ended(differing(1, "barrier #4", 3, 1));
  answer(cause);
  EXPECT_EQ(named(cause), 3);
  EXPECT_THAT(cause.finding()->notes,
              ElementsAre("  rank 3 called broadcast #4, ranks 0-1 called barrier #4"));
}

TEST(FirstCause, OfAMismatchWithoutAMajorityNamesBothSides) {
  for (const int found_by : {0, 1}) {
    FirstCause cause;
    cause.ended(differing(1, "broadcast #4", 1 - found_by, found_by));
    cause.ended(differing(0, "barrier #4", 1 - found_by, found_by));
    answer(cause);
    EXPECT_EQ(named(cause), 1);
    EXPECT_EQ(cause.finding()->headline,
              "ranks made different calls: rank 1 called broadcast #4, rank 0 called barrier #4");
  }
}

// Ranks 0 and 1 heard of it before they came to that call.
TEST(FirstCause, OfAMismatchThatFewHaveReachedNamesBothSides) {
  FirstCause cause;
  cause.ended(differing(1, "", 3, 2));
  cause.ended(differing(0, "", 3, 2));
  cause.ended(differing(3, "barrier #4", 3, 2));
  cause.ended(differing(2, "broadcast #4", 3, 2));
  answer(cause);
  EXPECT_EQ(cause.finding()->headline,
            "ranks made different calls: rank 3 called barrier #4, rank 2 called broadcast #4");
}

TEST(FirstCause, OfCountsThatDoNotFitNamesBothRanks) {
  FirstCause cause;
  cause.ended(differing(0, "all_to_allv #4", 1, 0));
  cause.ended(differing(1, "all_to_allv #4", 1, 0));
  answer(cause);
  EXPECT_THAT(cause.finding()->headline, ::testing::StartsWith("ranks 0-1 do not agree: "));
}

TEST(FirstCause, IsALostLinkIfTwoHostsBlameEachOther) {
  FirstCause cause({"a (node 0)", "a (node 0)", "b (node 1)", "b (node 1)"});
  cause.ended(follower(2, 0, Blame::kUnreachable));
  EXPECT_EQ(cause.question()->rank, 0);
  cause.ended(follower(0, 2, Blame::kUnreachable));
  ASSERT_TRUE(cause.finding());
  EXPECT_THAT(cause.finding()->headline, HasSubstr("hosts a (node 0) and b (node 1) lost each "
                                                   "other: "));
  EXPECT_EQ(cause.finding()->exit_code, 1);
}

TEST(FirstCause, OfARankThatSeemsToHaveLostAPeerIsWaitedFor) {
  RankEnd lost = exited(0, 1);
  lost.lost_peer = true;
  {
    FirstCause cause;
    cause.ended(lost);
    EXPECT_EQ(cause.question(), (Question{kAnyRank, 2s}));
    cause.ended(exited(1, 7));
    EXPECT_EQ(named(cause), 1);
  }
  FirstCause cause;
  cause.ended(lost);
  answer(cause);
  EXPECT_EQ(named(cause), 0);
  EXPECT_THAT(cause.finding()->notes, ElementsAre(HasSubstr("seems to have lost a peer")));
}

TEST(FirstCause, IsNoRankThatEndsAfterTheJobWasStopped) {
  FirstCause cause;
  RankEnd stopped = exited(0, 1);
  stopped.stopped = true;
  cause.ended(stopped);
  EXPECT_FALSE(cause.finding());
  EXPECT_FALSE(cause.question());
}

}  // namespace
}  // namespace dl::rendezvous
