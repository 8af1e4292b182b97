#include "nn/parallel/reducer/bucket_plan.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/nn/parallel/items_of.h"

namespace dl::nn::parallel {
namespace {

using ::testing::ElementsAre;

constexpr BucketCaps kSmall{.first = 1024, .others = 4096};

BucketItem f32(std::size_t elements) {
  return {.elements = elements};
}
BucketItem f64(std::size_t elements) {
  return {.elements = elements, .dtype = DType::kF64};
}

std::vector<BucketPlan> in_order(const std::vector<BucketItem>& items, BucketCaps caps = kSmall) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return plan_buckets(items, order, caps);
}

TEST(BucketPlan, OfNothingIsNothing) {
  EXPECT_TRUE(in_order({}).empty());
}

TEST(BucketPlan, FillsTheFirstAndOtherBucketsToTheirCaps) {
  const auto plan = in_order(std::vector<BucketItem>(16, f32(128)));  // 512 bytes each
  EXPECT_THAT(items_of(plan), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9),
                                          ElementsAre(10, 11, 12, 13, 14, 15)));
}

TEST(BucketPlan, FollowsTheGivenOrder) {
  const std::vector<BucketItem> items(3, f32(128));
  const std::vector<std::size_t> order{2, 0, 1};
  EXPECT_THAT(items_of(plan_buckets(items, order, kSmall)),
              ElementsAre(ElementsAre(2, 0), ElementsAre(1)));
}

TEST(BucketPlan, GivesAGradientAboveTheCapABucketOfItsOwn) {
  const auto plan = in_order({f32(10), f32(5000), f32(10), f32(10)});
  EXPECT_THAT(items_of(plan), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
}

TEST(BucketPlan, ALargeGradientCountsAgainstTheCapInForce) {
  // 2000 bytes: above the first cap, below the second.
  EXPECT_THAT(items_of(in_order({f32(10), f32(500), f32(10)})),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(items_of(in_order({f32(256), f32(10), f32(500), f32(10)})),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3)));
}

TEST(BucketPlan, AlignsOddSizes) {
  const auto plan = in_order({f32(1), f32(17), f32(0), f32(3)});
  ASSERT_EQ(plan.size(), 1u);
  std::vector<std::size_t> offsets;
  for (const auto& place : plan[0].places) offsets.push_back(place.offset);
  EXPECT_THAT(offsets, ElementsAre(0, 16, 48, 48));
  EXPECT_EQ(plan[0].elements, 64u);
}

TEST(BucketPlan, CountsTheGapsAgainstTheCap) {
  // Each takes a whole cache line: 16 of them fill 1024 bytes.
  const auto plan = in_order(std::vector<BucketItem>(17, f32(1)));
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].places.size(), 16u);
}

TEST(BucketPlan, SplitsByDtypeAndOrdersByLastGradient) {
  const auto plan = in_order({f32(10), f64(10), f64(200), f32(10)});
  EXPECT_THAT(items_of(plan), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(0, 3)));
  EXPECT_EQ(plan[0].dtype, DType::kF64);
  EXPECT_EQ(plan[2].dtype, DType::kF32);
}

TEST(BucketPlan, KeepsDevicesApart) {
  const Device cuda{.type = DeviceType::kCUDA};
  const auto plan = in_order({f32(1), {.elements = 1, .device = cuda}, f32(1)});
  EXPECT_THAT(items_of(plan), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_EQ(plan[0].device, cuda);
}

}  // namespace
}  // namespace dl::nn::parallel
