#include "rendezvous/net/rank_list.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/base/text/name_list.h"

namespace dl::rendezvous {
namespace {

TEST(RankList, NamesAllRanksInOrder) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({2, 0}), "ranks 0 and 2");
  EXPECT_EQ(rank_list({4, 5}), "ranks 4-5");
  EXPECT_EQ(rank_list({9, 0, 2, 3, 4}), "ranks 0, 2-4 and 9");
}

TEST(RankList, OfAGroupEndsIfItIsLong) {
  EXPECT_EQ(ranks_of({1}, 4), "rank 1 of 4");
  EXPECT_EQ(ranks_of({3, 1}, 4), "ranks 1 and 3 of 4");
  std::vector<int> odd;
  for (int rank = 1; rank < 64; rank += 2) odd.push_back(rank);
  EXPECT_EQ(ranks_of(odd, 64), "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 24 more of 64");
  std::vector<int> many(1000);
  std::iota(many.begin(), many.end(), 1);
  EXPECT_EQ(ranks_of(many, 1001), "ranks 1-1000 of 1001");
}

TEST(RankList, OfAGroupWithOtherNumbersNamesTheJobsRanks) {
  const std::vector<int> job_ranks = {7, 5, 2, 3};
  EXPECT_EQ(ranks_of({1}, 4, job_ranks), "rank 5 of the job");
  EXPECT_EQ(ranks_of({0, 2}, 4, job_ranks), "ranks 2 and 7 of the job");
  EXPECT_EQ(ranks_of({3}, 4, job_ranks), "rank 3 of 4") << "the numbers are the same";
  EXPECT_EQ(ranks_of({1, 3}, 4, std::nullopt), "ranks 1 and 3 of 4");
  EXPECT_EQ(ranks_of({1, 3}, 4, std::vector<int>{}), "ranks 1 and 3 of the group");
}

TEST(NameList, JoinsNamesAndCountsTheOthers) {
  EXPECT_EQ(detail::name_list({"a"}), "a");
  EXPECT_EQ(detail::name_list({"a", "b"}), "a and b");
  EXPECT_EQ(detail::name_list({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(detail::name_list(std::vector<std::string>(11, "x")),
            "x, x, x, x, x, x, x, x and 3 more");
}

}  // namespace
}  // namespace dl::rendezvous
