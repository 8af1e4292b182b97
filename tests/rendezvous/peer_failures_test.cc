#include "rendezvous/first_cause/peer_failures.h"

#include <gtest/gtest.h>

#include <string>

namespace dl::rendezvous {
namespace {

PeerFailure failure(int rank, const std::string& call = {}) {
  return {.cause = {.blame = Blame::kMissing,
                    .rank = rank,
                    .text = "barrier #1: timed out, waiting for rank " + std::to_string(rank) +
                            ";\nis it alive?"},
          .call = call};
}
// The rank that the explanation blames; -1: there is none.
int blamed(const PeerFailures& failures, std::string_view last_message = {}) {
  const auto found = failures.explanation(0, last_message);
  return found ? found->cause.rank : -1;
}

TEST(PeerFailures, TheFirstExplainsAnEnd) {
  PeerFailures failures;
  EXPECT_EQ(blamed(failures), -1);
  failures.add(failure(1));
  failures.add(failure(2));
  EXPECT_EQ(blamed(failures), 1);
}

TEST(PeerFailures, ThatTheRankHasGotOverExplainNothing) {
  PeerFailures failures;
  failures.add(failure(1));
  failures.recovered();
  EXPECT_EQ(blamed(failures), -1);
  EXPECT_EQ(blamed(failures, "ValueError: a broken record\n"), -1);
  failures.add(failure(2));
  failures.add(failure(3));
  EXPECT_EQ(blamed(failures), 2);
}

TEST(PeerFailures, TheOneThatTheLastMessageQuotesExplainsTheEnd) {
  PeerFailures failures;
  failures.add(failure(1));
  failures.add(failure(2));
  const std::string quoted = "TimeoutError: barrier #1: timed out, waiting for rank 2;\nis it";
  EXPECT_EQ(blamed(failures, quoted), 2);
  failures.recovered();
  EXPECT_EQ(blamed(failures, quoted), 2) << "a thread that knew nothing of it has called the group";
}

TEST(PeerFailures, OfAShortTextAreNotQuotedByChance) {
  PeerFailures failures;
  failures.add(failure(1));
  PeerFailure brief = failure(2);
  brief.cause.text = "error";
  failures.add(brief);
  EXPECT_EQ(blamed(failures, "an error\n"), 1);
}

// Rank 0 has aborted a group; the ends of the others, of which it hears later, follow from that.
TEST(PeerFailures, OfTheRanksOwnMakingComeBeforeWhatItQuotes) {
  PeerFailures failures;
  const PeerFailure own{.cause = {.blame = Blame::kBroke,
                                  .rank = 0,
                                  .found_by = 0,
                                  .text = "group 'part' was aborted by rank 0: it gives up"}};
  failures.add(own);
  failures.add(failure(1));
  EXPECT_EQ(blamed(failures, failure(1).cause.text), 0);
  failures.recovered();
  EXPECT_EQ(blamed(failures, failure(1).cause.text), 1);
  failures.add(failure(2));
  failures.add(own);
  EXPECT_EQ(blamed(failures), 2) << "it has aborted because of rank 2";
  EXPECT_EQ(blamed(failures, failure(1).cause.text), 1);
}

TEST(PeerFailures, OfAGroupThatIsMadeAnewNeverCount) {
  PeerFailures failures;
  failures.add(failure(1));
  failures.renewed();
  EXPECT_EQ(blamed(failures, failure(1).cause.text), -1);
}

TEST(PeerFailures, GetTheCallThatTheRankMakesLater) {
  PeerFailures failures;
  failures.add(failure(1));
  failures.add(failure(1, "barrier #1"));
  EXPECT_EQ(failures.explanation(0, {})->call, "barrier #1");
}

TEST(PeerFailures, KeepTheCallOfAMismatchBeforeAnotherFailure) {
  PeerFailures failures;
  PeerFailure mismatch = failure(1, "barrier #1");
  mismatch.cause.blame = Blame::kMismatch;
  mismatch.cause.text = "barrier #1: rank 1 called something else";
  failures.add(mismatch);
  failures.add(failure(2));
  const auto found = failures.explanation(0, failure(2).cause.text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cause.rank, 2);
  EXPECT_EQ(found->call, "barrier #1");
  failures.recovered();
  EXPECT_EQ(failures.explanation(0, failure(2).cause.text)->call, "");
}

TEST(PeerFailures, OfAProgramThatTriesForEverAreTheFirstAndTheLast) {
  PeerFailures failures;
  for (int i = 1; i <= 1000; ++i) failures.add(failure(i));
  EXPECT_EQ(blamed(failures), 1);
  EXPECT_EQ(blamed(failures, failure(1000).cause.text), 1000);
  EXPECT_EQ(blamed(failures, failure(500).cause.text), 1) << "it is forgotten";
  failures.recovered();
  for (int i = 2001; i <= 3000; ++i) failures.add(failure(i));
  EXPECT_EQ(blamed(failures), 2001);
}

}  // namespace
}  // namespace dl::rendezvous
