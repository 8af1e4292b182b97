#include "rendezvous/rank_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace dl::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RankNumbers, BySlotANodesRanksFollowEachOther) {
  EXPECT_THAT(number_ranks({2, 3, 1}, RankBy::kSlot),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4), ElementsAre(5)));
}

TEST(RankNumbers, ByNodeEachNodeGetsOneRankInTurnWhileItHasSome) {
  EXPECT_THAT(number_ranks({2, 2}, RankBy::kNode),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(number_ranks({2, 3, 1}, RankBy::kNode),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4, 5), ElementsAre(2)));
  EXPECT_THAT(number_ranks({1, 4}, RankBy::kNode),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3, 4)));
  EXPECT_THAT(number_ranks({3}, RankBy::kNode), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_THAT(number_ranks({0, 2}, RankBy::kNode), ElementsAre(IsEmpty(), ElementsAre(0, 1)));
}

TEST(RankNumbers, EveryRankIsOnOneNodeAndRisesWithItsLocalRank) {
  const std::vector<int> slots = {5, 1, 8, 3, 3};
  for (const RankBy by : {RankBy::kSlot, RankBy::kNode}) {
    std::vector<int> all;
    const std::vector<std::vector<int>> ranks = number_ranks(slots, by);
    for (std::size_t node = 0; node < slots.size(); ++node) {
      EXPECT_EQ(std::ssize(ranks[node]), slots[node]);
      EXPECT_TRUE(std::ranges::is_sorted(ranks[node]));
      all.insert(all.end(), ranks[node].begin(), ranks[node].end());
    }
    std::ranges::sort(all);
    std::vector<int> wanted(20);
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(all, wanted);
    EXPECT_EQ(ranks[0][0], 0) << "MASTER_ADDR is node 0's";
  }
}

}  // namespace
}  // namespace dl::rendezvous
