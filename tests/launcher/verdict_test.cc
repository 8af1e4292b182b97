#include "launcher/verdict.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "launcher/lost_peer.h"

namespace dl::launcher {
namespace {

using Next = Verdict::Next;

RankEnd exited(int rank, int code) {
  return {.rank = rank, .pid = 100 + rank, .status = code << 8};
}
RankEnd follower(int rank, int peer) {
  RankEnd end = exited(rank, 1);
  end.follows = rendezvous::PeerFailure{peer, "all_reduce #7", "text"};
  return end;
}

TEST(Verdict, TheFirstFailureOnItsOwnIsTheCause) {
  Verdict verdict;
  EXPECT_EQ(verdict.rank_ended(exited(2, 0)), Next::kGoOn);
  EXPECT_EQ(verdict.rank_ended(exited(1, 7)), Next::kStop);
  EXPECT_EQ(verdict.rank_ended(exited(0, 3)), Next::kGoOn);
  EXPECT_EQ(verdict.cause()->rank, 1);
  EXPECT_EQ(verdict.cause()->exit_code(), 7);
}

TEST(Verdict, AFollowerWaitsForTheRankItFollowed) {
  Verdict verdict;
  EXPECT_EQ(verdict.rank_ended(follower(0, 1)), Next::kWaitForCause);
  EXPECT_EQ(verdict.cause(), nullptr);
  EXPECT_EQ(verdict.rank_ended(follower(2, 1)), Next::kGoOn);
  EXPECT_EQ(verdict.rank_ended(exited(1, 1)), Next::kStop);
  EXPECT_EQ(verdict.cause()->rank, 1);
  EXPECT_EQ(verdict.cause_is_late(), Next::kGoOn);
}

TEST(Verdict, AFollowerIsTheCauseWhereNobodyElseFailsInTime) {
  Verdict verdict;
  EXPECT_EQ(verdict.rank_ended(follower(0, 1)), Next::kWaitForCause);
  EXPECT_EQ(verdict.cause_is_late(), Next::kStop);
  EXPECT_EQ(verdict.cause()->rank, 0);
}

TEST(Verdict, ARankThatSeemsToHaveLostAPeerIsAFollower) {
  Verdict verdict;
  RankEnd lost = exited(0, 1);
  lost.lost_peer = true;
  EXPECT_EQ(verdict.rank_ended(lost), Next::kWaitForCause);
  EXPECT_EQ(verdict.rank_ended(exited(1, 7)), Next::kStop);
  EXPECT_EQ(verdict.cause()->rank, 1);
}

TEST(LostPeer, IsWhatTheLastMessageSays) {
  const std::string gloo =
      "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:13035: "
      "Connection reset by peer. Check the logs of the remote worker\n";
  const std::string traceback = "[rank0]: Traceback (most recent call last):\n";
  EXPECT_TRUE(says_peer_was_lost(gloo));
  EXPECT_TRUE(says_peer_was_lost(traceback + gloo + "[rank0]: frame\n"));
  EXPECT_FALSE(says_peer_was_lost(""));
  EXPECT_FALSE(says_peer_was_lost("[rank0]: ValueError: bad batch\n"));
  // What was survived is no reason for the end.
  EXPECT_FALSE(says_peer_was_lost(traceback + gloo + traceback + "ValueError: bad batch\n"));
  std::string later = gloo;
  for (int i = 0; i < 20; ++i) later += "line\n";
  EXPECT_FALSE(says_peer_was_lost(later));
}

TEST(Verdict, WhoEndsAfterTheJobWasStoppedIsNoCause) {
  Verdict verdict;
  RankEnd stopped = exited(0, 1);
  stopped.stopped = true;
  EXPECT_EQ(verdict.rank_ended(stopped), Next::kGoOn);
  EXPECT_EQ(verdict.cause(), nullptr);
}

TEST(Verdict, ASignalCountsAs128AndItsNumber) {
  Verdict verdict;
  EXPECT_EQ(verdict.rank_ended({.rank = 0, .pid = 1, .status = SIGKILL}), Next::kStop);
  EXPECT_EQ(verdict.cause()->exit_code(), 137);
}

}  // namespace
}  // namespace dl::launcher
