#include "core/tape/plan/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace dl::tape {
namespace {

constexpr std::size_t kAlignment = 64;

void expect_apart(const std::vector<Lifetime>& blocks, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kAlignment, 0u);
    EXPECT_LE(plan.offsets[i] + blocks[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[i].last < blocks[j].first || blocks[j].last < blocks[i].first) continue;
      const bool is_below = plan.offsets[i] + blocks[i].bytes <= plan.offsets[j];
      const bool is_above = plan.offsets[j] + blocks[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(is_below || is_above) << i << " and " << j;
    }
  }
}

TEST(PlanArena, OfNothingIsEmpty) {
  EXPECT_EQ(plan_arena({}, kAlignment).bytes, 0u);
}

TEST(PlanArena, GivesBlocksThatNeverMeetOnePlace) {
  const ArenaPlan plan = plan_arena({{100, 0, 1}, {100, 2, 3}, {128, 4, 9}}, kAlignment);
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_EQ(plan.offsets, std::vector<std::size_t>(3, 0));
}

TEST(PlanArena, KeepsBlocksApartThatMeetInOneStep) {
  const std::vector<Lifetime> blocks = {{64, 0, 2}, {64, 2, 4}};
  const ArenaPlan plan = plan_arena(blocks, kAlignment);
  EXPECT_EQ(plan.bytes, 128u);
  expect_apart(blocks, plan);
}

TEST(PlanArena, KeepsRandomBlocksApartAndStaysNearTheLeast) {
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t end) { return random() % end; };
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> blocks(1 + below(60));
    for (Lifetime& block : blocks) {
      block.bytes = below(5000);
      block.first = below(40);
      block.last = block.first + below(15);
    }
    const ArenaPlan plan = plan_arena(blocks, kAlignment);
    expect_apart(blocks, plan);
    const std::size_t least = most_bytes_at_once(blocks, kAlignment);
    EXPECT_GE(plan.bytes, least);
    EXPECT_LE(plan.bytes, least + least / 2);
  }
}

}  // namespace
}  // namespace dl::tape
