#include "nn/data/datasets/tensor_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/data/data_loader.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

TEST(TensorDataset, GivesTheRowsOfItsTensors) {
  const Tensor x = tensor({{1.0F, 2.0F}, {3.0F, 4.0F}, {5.0F, 6.0F}});
  const Tensor y = tensor({std::int64_t{7}, std::int64_t{8}, std::int64_t{9}});
  const TensorDataset dataset({x.t(), y.slice(0, 0, 2)});  // x.t() is not row-major
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_THAT(dataset.fields()[0].shape, ElementsAre(3));
  EXPECT_THAT(dataset.fields()[1].shape, ElementsAre());
  const DataLoader loader(dataset, {.batch_size = 2});
  int batches = 0;
  for (const auto& [input, target] : loader) {
    EXPECT_EQ(input.sizes(), Shape({2, 3}));
    EXPECT_EQ(input.at<float>({1, 0}), 2.0F);
    EXPECT_EQ(target.at<std::int64_t>({1}), 8);
    ++batches;
  }
  EXPECT_EQ(batches, 1);
}

TEST(TensorDataset, RefusesTensorsThatAreNoSamples) {
  EXPECT_THAT([] { TensorDataset({}); }, ThrowsMessage<Error>("TensorDataset: there is no tensor"));
  EXPECT_THAT([] { TensorDataset({ones({2}), ones({3, 2})}); },
              ThrowsMessage<Error>("TensorDataset: tensor 1 has 3 samples, tensor 0 has 2"));
  EXPECT_THAT([] { TensorDataset({ones({})}); },
              ThrowsMessage<Error>("TensorDataset: tensor 0 is a single number; its first "
                                   "dimension must count the samples"));
  EXPECT_THAT([] { TensorDataset({Tensor()}); },
              ThrowsMessage<Error>("TensorDataset: tensor 0 is undefined; its first dimension must "
                                   "count the samples"));
}

TEST(Batch, OfAnotherNumberOfFieldsHasNoTwoNames) {
  const TensorDataset dataset({ones({2})});
  for (const Batch& batch : DataLoader(dataset)) {
    EXPECT_THAT([&] { get<0>(batch); },
                ThrowsMessage<Error>("Batch: [x, y] names 2 fields, the dataset has 1; use "
                                     "batch[0], batch[1], ..."));
  }
}

}  // namespace
}  // namespace dl::data
