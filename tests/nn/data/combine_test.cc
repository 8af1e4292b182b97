#include "nn/data/datasets/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "tests/nn/data/numbers.h"
#include "tests/nn/data/torch_indices.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The target of each sample: ten times its number in Numbers.
Indices targets(const Dataset& dataset) {
  Indices found;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    float input[3];
    std::int64_t target = 0;
    const std::span<std::byte> places[] = {std::as_writable_bytes(std::span(input)),
                                           std::as_writable_bytes(std::span(&target, 1))};
    dataset.read(i, places);
    found.push_back(target);
  }
  return found;
}

TEST(Subset, IsTheSamplesInTheGivenOrder) {
  const Numbers dataset(10);
  const Subset part(dataset, {7, 0, 7});
  EXPECT_EQ(part.size(), 3);
  EXPECT_EQ(part.fields().size(), 2U);
  EXPECT_THAT(targets(part), ElementsAre(70, 0, 70));
  EXPECT_THAT([&] { targets(Subset(dataset, {10})); },
              ThrowsMessage<Error>("Subset: there is no sample 10 among 10"));
  EXPECT_THAT([&] { part.read(3, {}); }, ThrowsMessage<Error>(HasSubstr("no sample 3 among 3")));
}

TEST(ConcatDataset, IsOneDatasetAfterTheOther) {
  const Numbers two(2);
  const ConcatDataset all({two, Numbers(0), std::make_shared<Numbers>(3)});
  EXPECT_THAT(targets(all), ElementsAre(0, 10, 0, 10, 20));
  EXPECT_THAT([&] { all.read(5, {}); }, ThrowsMessage<Error>(HasSubstr("no sample 5 among 5")));
  EXPECT_THAT([] { ConcatDataset({}); },
              ThrowsMessage<Error>("ConcatDataset: there is no dataset"));
  EXPECT_THAT([&] { ConcatDataset({two, std::shared_ptr<Dataset>()}); },
              ThrowsMessage<Error>("ConcatDataset: dataset 1 is null"));
}

class Single : public Numbers {
 public:
  Single() : Numbers(1) {}
  const std::vector<Field>& fields() const noexcept override { return only_; }

 private:
  std::vector<Field> only_ = {{"input", DType::kF32, {3}}};
};

TEST(ConcatDataset, RefusesDatasetsOfOtherSamples) {
  EXPECT_THAT([] { ConcatDataset({Numbers(1), Single()}); },
              ThrowsMessage<Error>("ConcatDataset: the samples of dataset 1 have other dtypes or "
                                   "shapes than those of dataset 0"));
}

TEST(RandomSplit, HasPyTorchsIndices) {
  const Numbers dataset(103);
  Generator generator(42);
  const std::vector<Subset> shares = random_split(dataset, {0.5, 0.3, 0.2}, generator);
  ASSERT_EQ(shares.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shares[i].indices(), torch_indices("split_shares_" + std::to_string(i)));
  }
  const std::vector<Subset> numbers = random_split(dataset, {100, 3}, generator);
  EXPECT_EQ(numbers[1].indices(), torch_indices("split_numbers_1"));
}

TEST(RandomSplit, RefusesPartsThatAreNotTheWhole) {
  const Numbers dataset(10);
  EXPECT_THAT(
      [&] { random_split(dataset, {5, 6}); },
      ThrowsMessage<Error>("random_split: the lengths sum to 11, but the dataset has 10 samples"));
  EXPECT_THAT([&] { random_split(dataset, {12, -2}); },
              ThrowsMessage<Error>(HasSubstr("a part of -2 samples")));
  EXPECT_THAT([&] { random_split(dataset, {0.5, 0.4}); },
              ThrowsMessage<Error>("random_split: the shares sum to 0.9, wanted 1"));
  EXPECT_THAT([&] { random_split(dataset, {0.5, 5}); },
              ThrowsMessage<Error>(HasSubstr("wanted one kind")));
  EXPECT_THAT([&] { random_split(dataset, {1.5, -0.5}); },
              ThrowsMessage<Error>("random_split: a share is 1.5, wanted 0 to 1"));
}

}  // namespace
}  // namespace dl::data
