#include "nn/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "tests/nn/data/torch_indices.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SequentialSampler, CountsUp) {
  EXPECT_THAT(SequentialSampler(4).indices(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(SequentialSampler(0).indices(), IsEmpty());
}

TEST(RandomSampler, HasPyTorchsOrder) {
  for (const auto& [n, samples] : {std::pair{10, 10}, {10, 25}, {10, 4}, {1433, 1433}}) {
    Generator generator(5);
    RandomSampler sampler(n, {.num_samples = samples, .generator = &generator});
    EXPECT_EQ(sampler.size(), samples);
    EXPECT_EQ(sampler.indices(),
              torch_indices("random_" + std::to_string(n) + "_" + std::to_string(samples)));
  }
}

TEST(RandomSampler, LeavesTheGeneratorWherePyTorchLeavesIt) {
  Generator generator(5);
  RandomSampler sampler(10, {.generator = &generator});
  Indices both = sampler.indices();
  const Indices second = sampler.indices();
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(both, torch_indices("random_twice"));
}

TEST(RandomSampler, DrawsWithReplacement) {
  Generator generator(5);
  RandomSampler sampler(10, {.replacement = true, .num_samples = 70, .generator = &generator});
  EXPECT_EQ(sampler.indices(), torch_indices("random_replacement"));
}

TEST(RandomSampler, SeedsItselfFromTheDefaultGenerator) {
  manual_seed(123);
  RandomSampler sampler(100);
  Indices both = sampler.indices();
  const Indices second = sampler.indices();
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(both, torch_indices("random_default_generator"));
}

TEST(RandomSampler, RefusesToDrawFromNothing) {
  EXPECT_THAT([] { RandomSampler sampler(0); },
              testing::ThrowsMessage<Error>(
                  "RandomSampler: the dataset has 0 samples, wanted at least 1 to draw from"));
  EXPECT_THAT([] { RandomSampler sampler(3, {.num_samples = 0}); },
              testing::ThrowsMessage<Error>("RandomSampler: num_samples is 0, wanted at least 1"));
}

TEST(WeightedRandomSampler, HasPyTorchsOrderWithReplacement) {
  Generator generator(5);
  WeightedRandomSampler sampler({0.1, 5, 0, 2.5, 0.7}, 60, {.generator = &generator});
  EXPECT_EQ(sampler.size(), 60);
  EXPECT_EQ(sampler.indices(), torch_indices("weighted"));
  EXPECT_EQ(sampler.indices(), torch_indices("weighted_again"));
}

// Among 20,000 draws of 2 of 3, each pair comes as often as drawing one after the other says.
TEST(WeightedRandomSampler, DrawsByWeightWithoutReplacement) {
  Generator generator(1);
  WeightedRandomSampler sampler({1, 2, 5, 0}, 2, {.replacement = false, .generator = &generator});
  std::map<Indices, double> share;
  for (int i = 0; i < 20'000; ++i) share[sampler.indices()] += 1.0 / 20'000;
  ASSERT_EQ(share.size(), 6U);
  const double weights[] = {1, 2, 5};
  for (const auto& [pair, found] : share) {
    const double first = weights[pair[0]] / 8;
    EXPECT_NEAR(found, first * weights[pair[1]] / (8 - weights[pair[0]]), 0.015);
  }
}

TEST(WeightedRandomSampler, RefusesWhatCannotBeDrawn) {
  const auto refuses = [](std::vector<double> weights, std::int64_t count, bool replacement,
                          const std::string& text) {
    EXPECT_THAT([&] { WeightedRandomSampler(weights, count, {.replacement = replacement}); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(text)));
  };
  refuses({1, 2}, 0, true, "WeightedRandomSampler: num_samples is 0, wanted at least 1");
  refuses({1, -2}, 1, true, "weight 1 is -2, wanted a finite number of at least 0");
  refuses({1, std::nan("")}, 1, true, "weight 1 is nan");
  refuses({0, 0}, 1, true, "none of the 2 weights is more than 0");
  refuses({}, 1, true, "none of the 0 weights");
  refuses({1, 0, 2}, 3, false, "cannot draw 3 numbers without replacement where 2 weights");
}

TEST(DistributedSampler, HasPyTorchsIndicesOnEveryRank) {
  for (const auto& [n, ranks] : {std::pair{10, 1}, {10, 3}, {11, 4}, {2, 5}, {1433, 2}}) {
    for (const bool drop : {false, true}) {
      for (int rank = 0; rank < ranks; ++rank) {
        DistributedSampler sampler(n, {.num_replicas = ranks,
                                       .rank = rank,
                                       .seed = 42,
                                       .remainder = drop ? Remainder::kDrop : Remainder::kPad});
        for (const int epoch : {0, 3}) {
          sampler.set_epoch(epoch);
          const Indices got = sampler.indices();
          const std::string name = "distributed_" + std::to_string(n) + "_" +
                                   std::to_string(ranks) + "_" + std::to_string(rank) +
                                   (drop ? "_drop_" : "_pad_") + std::to_string(epoch);
          EXPECT_EQ(got, torch_indices(name)) << name;
          EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(got.size()));
        }
      }
    }
  }
}

TEST(DistributedSampler, KeepsTheOrderWithoutShuffling) {
  for (int rank = 0; rank < 4; ++rank) {
    DistributedSampler sampler(11, {.num_replicas = 4, .rank = rank, .shuffle = false});
    EXPECT_EQ(sampler.indices(), torch_indices("ordered_11_4_" + std::to_string(rank)));
  }
}

TEST(DistributedSampler, UnevenVisitsEverySampleOnceAtAnyWorldSize) {
  for (const std::int64_t n : {0, 1, 11, 364}) {
    for (const int ranks : {1, 2, 3, 5, 13}) {
      Indices all;
      for (int rank = 0; rank < ranks; ++rank) {
        DistributedSampler sampler(
            n, {.num_replicas = ranks, .rank = rank, .remainder = Remainder::kUneven});
        const Indices mine = sampler.indices();
        EXPECT_EQ(static_cast<std::int64_t>(mine.size()), sampler.size());
        all.insert(all.end(), mine.begin(), mine.end());
      }
      std::ranges::sort(all);
      EXPECT_EQ(all, SequentialSampler(n).indices()) << n << " samples, " << ranks << " ranks";
    }
  }
}

// The samples that `ranks` ranks visit from the cursor on, in the order of the global batches.
Indices visited(std::int64_t n, int ranks, const Cursor& cursor, std::int64_t count) {
  std::vector<Indices> of_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    DistributedSampler sampler(
        n, {.num_replicas = ranks, .rank = rank, .seed = 7, .remainder = Remainder::kUneven});
    sampler.resume(cursor);
    of_rank.push_back(sampler.indices());
  }
  Indices order;
  for (std::int64_t i = 0; i < count; ++i) {
    order.push_back(
        of_rank[static_cast<std::size_t>(i % ranks)][static_cast<std::size_t>(i / ranks)]);
  }
  return order;
}

TEST(DistributedSampler, ResumesAtTheExactSampleAtAnotherWorldSize) {
  const Indices whole = visited(100, 1, {.epoch = 2}, 100);
  Indices pieces = visited(100, 4, {.epoch = 2, .offset = 0}, 24);
  for (const auto& [ranks, offset, count] : {std::tuple{3, 24, 30}, {2, 54, 46}}) {
    const Indices more = visited(100, ranks, {.epoch = 2, .offset = offset}, count);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  EXPECT_EQ(pieces, whole);
}

// 10 samples of 4 ranks: two are visited twice, and they must not depend on the position at which
// the run stopped.
TEST(DistributedSampler, ResumesWithThePaddingOfTheWholeEpoch) {
  for (int rank = 0; rank < 4; ++rank) {
    DistributedSampler sampler(10, {.num_replicas = 4, .rank = rank, .seed = 7});
    sampler.resume({.epoch = 1});
    const Indices whole = sampler.indices();
    for (const int done : {1, 2}) {
      sampler.resume({.epoch = 1, .offset = 4 * done});
      EXPECT_EQ(sampler.indices(), Indices(whole.begin() + done, whole.end())) << rank;
    }
  }
}

TEST(DistributedSampler, ANewEpochForgetsTheOffset) {
  DistributedSampler sampler(10, {.num_replicas = 2});
  sampler.resume({.epoch = 1, .offset = 8});
  EXPECT_EQ(sampler.size(), 1);
  sampler.set_epoch(2);
  EXPECT_EQ(sampler.size(), 5);
}

TEST(DistributedSampler, RefusesRanksAndOffsetsThatAreNotThere) {
  EXPECT_THAT([] { DistributedSampler sampler(10, {.num_replicas = 2, .rank = 2}); },
              testing::ThrowsMessage<Error>(
                  "DistributedSampler: got rank 2 of 2, wanted 0 <= rank < num_replicas"));
  DistributedSampler sampler(10);
  EXPECT_THAT(
      [&] { sampler.resume({.epoch = 4, .offset = 11}); },
      testing::ThrowsMessage<Error>(
          "DistributedSampler: the cursor stands at sample 11 of epoch 4, but an epoch has 10"));
}

}  // namespace
}  // namespace dl::data
