// What a job's card says, as it was written and if it is damaged.
#include "launcher/jobs/card/job_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/file_size_limit.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;

CardFacts facts() {
  CardFacts facts;
  facts.job = "train";
  facts.host = "a";
  facts.node = 1;
  facts.nodes = 2;
  facts.program = {"./train", "--name", "\xff\x1b[2J"};
  facts.log_dir = "/log";
  facts.began_ns = 1'700'000'000'000'000'000;
  return facts;
}

std::vector<int> ranks_of(const CardContent& content) {
  std::vector<int> ranks;
  for (const CardRank& rank : content.ranks) ranks.push_back(rank.rank);
  return ranks;
}

TEST(JobCard, SaysWhatWasWrittenLast) {
  JobCard card(facts());
  ASSERT_GE(card.fd(), 0);
  std::optional<CardContent> read = read_card(card.fd());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->facts.job, "train");
  EXPECT_EQ(read->facts.node, 1);
  EXPECT_EQ(read->facts.nodes, 2);
  EXPECT_EQ(read->facts.program.size(), 3U);
  EXPECT_EQ(read->facts.began_ns, facts().began_ns);
  EXPECT_EQ(read->state, CardState::kStarting);
  EXPECT_THAT(read->ranks, testing::IsEmpty());

  card.attempt_began(0, {2, 3});
  card.rank_started(3, 4711);
  card.rank_ended(2, 4710, 256);
  read = read_card(card.fd());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->state, CardState::kRunning);
  EXPECT_THAT(ranks_of(*read), ElementsAre(2, 3));
  EXPECT_EQ(read->ranks[0].is, CardRank::Is::kEnded);
  EXPECT_EQ(read->ranks[0].status, 256);
  EXPECT_EQ(read->ranks[1].pid, 4711);

  // The ranks of several nodes come one node after the other; a next attempt begins anew.
  card.attempt_began(1, {4});
  card.attempt_began(1, {1, 0});
  card.set_state(CardState::kEnding);
  read = read_card(card.fd());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->attempt, 1);
  EXPECT_EQ(read->state, CardState::kEnding);
  EXPECT_THAT(ranks_of(*read), ElementsAre(0, 1, 4));
  EXPECT_EQ(read->ranks[0].is, CardRank::Is::kBeingStarted);
}

TEST(JobCard, ThatIsDamagedIsNone) {
  JobCard card(facts());
  const int fd = card.fd();
  std::vector<char> bytes(4096);
  const ssize_t size = ::pread(fd, bytes.data(), bytes.size(), 0);
  ASSERT_GT(size, 0);
  // Each byte in turn, and each length: read_card() returns, whatever it returns.
  for (ssize_t i = 0; i < size; ++i) {
    const int other = ::memfd_create("card", 0);
    std::vector<char> damaged(bytes.begin(), bytes.begin() + size);
    damaged[static_cast<std::size_t>(i)] = static_cast<char>(~damaged[static_cast<std::size_t>(i)]);
    ASSERT_EQ(::write(other, damaged.data(), damaged.size()), size);
    read_card(other);
    ASSERT_EQ(::ftruncate(other, i), 0);
    EXPECT_FALSE(read_card(other)) << i;
    ::close(other);
  }
  EXPECT_FALSE(read_card(-1));
}

TEST(JobCard, OfAJobThatMayWriteNoFileIsMissing) {
  const tests::FileSizeLimit limit(16);
  JobCard card(facts());
  EXPECT_EQ(card.fd(), -1);
  card.attempt_began(0, {0});
  card.rank_started(0, 1);
}

}  // namespace
}  // namespace dl::launcher
