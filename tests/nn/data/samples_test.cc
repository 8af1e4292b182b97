// Datasets that return tensors, streams of samples, collate functions, and what a sample may ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/data/data_loader.h"
#include "nn/data/datasets/combine.h"
#include "nn/data/datasets/tensor_dataset.h"
#include "nn/data/worker.h"
#include "tests/nn/data/numbers.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;
using Rows = std::vector<std::vector<std::int64_t>>;

std::vector<std::int64_t> integers(const Tensor& x) {
  return {x.data<std::int64_t>(), x.data<std::int64_t>() + x.numel()};
}

// The first field of each batch.
Rows firsts(const DataLoader& loader) {
  Rows rows;
  for (const Batch& batch : loader) rows.push_back(integers(batch[0]));
  return rows;
}

// Sample i is i, and a row of i numbers if it is `ragged`.
class Squares : public Dataset {
 public:
  explicit Squares(std::int64_t size, bool ragged = false) : size_(size), ragged_(ragged) {}
  std::int64_t size() const noexcept override { return size_; }
  Sample get(std::int64_t i) const override {
    return {tensor(i), full({ragged_ ? i : 2}, static_cast<double>(i * i))};
  }

 private:
  std::int64_t size_;
  bool ragged_;
};

TEST(Dataset, ReturnsTensorsThatTheLoaderStacks) {
  for (const int workers : {0, 2}) {
    Rows numbers;
    for (auto& [x, y] : DataLoader(Squares(5), {.batch_size = 2, .num_workers = workers})) {
      numbers.push_back(integers(x));
      EXPECT_EQ(y.sizes(), Shape({x.size(0), 2}));
      EXPECT_EQ(y.at<float>({0, 1}),
                static_cast<float>(x.at<std::int64_t>({0}) * x.at<std::int64_t>({0})));
    }
    EXPECT_THAT(numbers, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  }
}

TEST(Dataset, MayReturnATuplePairOrVector) {
  const Tensor x = ones({2});
  EXPECT_THAT(Sample(std::tuple{x, x, x}).fields, SizeIs(3));
  EXPECT_THAT(Sample(std::pair{x, x}).fields, SizeIs(2));
  EXPECT_THAT(Sample(std::vector{x, x}).fields, SizeIs(2));
  EXPECT_THAT(Sample(x).fields, SizeIs(1));
  EXPECT_THAT([&] { Sample{x}[1]; }, ThrowsMessage<Error>("Sample: there is no field 1 among 1"));
}

TEST(Dataset, ThatReadsInPlaceGivesTensorsToo) {
  const Sample sample = Numbers(3).get(2);
  EXPECT_EQ(sample[0].sizes(), Shape({3}));
  EXPECT_EQ(sample[0].at<float>({1}), 2.0F);
  EXPECT_EQ(sample[1].item<std::int64_t>(), 20);
}

TEST(Dataset, OfTensorsIsDividedAndJoined) {
  const Squares squares(10);
  EXPECT_THAT(firsts(DataLoader(Subset(squares, {7, 0, 7}), {.batch_size = 3})),
              ElementsAre(ElementsAre(7, 0, 7)));
  const TensorDataset rows({tensor({std::int64_t{40}, std::int64_t{50}}), ones({2, 2})});
  const ConcatDataset both({rows, Subset(squares, {3})});
  EXPECT_THAT(both.fields(), IsEmpty());
  EXPECT_THAT(firsts(DataLoader(both, {.batch_size = 3})), ElementsAre(ElementsAre(40, 50, 3)));
  EXPECT_THAT([&] { both.get(3); },
              ThrowsMessage<Error>("ConcatDataset: there is no sample 3 among 3"));
}

TEST(DefaultCollate, NamesTheSampleThatDiffers) {
  EXPECT_THAT(
      [] { DataLoader(Squares(3, true), {.batch_size = 3}).epoch().next(); },
      ThrowsMessage<Error>(
          "batch 0: default_collate: field 1 is [1] in sample 1 of the batch, but [0] in sample "
          "0; give the loader a collate_fn for samples that differ"));
  const auto collate = [](Sample a, Sample b) { default_collate({std::move(a), std::move(b)}); };
  EXPECT_THAT([&] { collate({ones({1})}, {tensor({1})}); },
              ThrowsMessage<Error>("default_collate: field 0 is int64 in sample 1 of the batch, "
                                   "but float32 in sample 0; give "
                                   "the loader a collate_fn for samples that differ"));
  EXPECT_THAT([&] { collate({ones({1})}, {ones({1}), ones({1})}); },
              ThrowsMessage<Error>(
                  "default_collate: sample 1 of the batch has 2 fields, but sample 0 has 1"));
  EXPECT_THAT([&] { collate({ones({1})}, {Tensor()}); },
              ThrowsMessage<Error>("default_collate: field 0 of sample 1 of the batch is "
                                   "undefined, wanted a tensor on cpu"));
  EXPECT_THAT([] { default_collate({}); },
              ThrowsMessage<Error>(
                  "default_collate: got 0 samples, wanted at least 1 of at least 1 field"));
}

// Rows of different lengths as one row, with the end of each.
Batch joined(const std::vector<Sample>& samples) {
  std::vector<float> all;
  std::vector<std::int64_t> ends;
  for (const Sample& sample : samples) {
    all.insert(all.end(), sample[1].data<float>(), sample[1].data<float>() + sample[1].numel());
    ends.push_back(static_cast<std::int64_t>(all.size()));
  }
  return {{tensor(ends), tensor(all)}};
}

TEST(DefaultCollate, RefusesWhatRequiresGradients) {
  const Tensor x = ones({2, 3}, {.requires_grad = true});
  EXPECT_THAT([&] { default_collate({x[0], x[1]}); },
              ThrowsMessage<Error>(
                  "default_collate: field 0 of sample 0 of the batch requires gradients, which a "
                  "batch does not keep; return its detach(), or give the loader a collate_fn"));
  EXPECT_THAT([&] { TensorDataset({ones({2}), x}); },
              ThrowsMessage<Error>("TensorDataset: tensor 1 requires gradients, which batches do "
                                   "not keep; give its detach()"));
  const NoGradGuard no_grad;
  EXPECT_EQ(default_collate({x[0], x[1]})[0].sizes(), Shape({2, 3}));
}

TEST(DataLoader, CollatesWithAFunctionOfYourOwn) {
  for (const int workers : {0, 2}) {
    const DataLoader loader(Squares(4, true),
                            {.batch_size = 2, .num_workers = workers, .collate_fn = joined});
    EXPECT_THAT(firsts(loader), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 5)));
  }
  // Fields are not read in place then.
  const DataLoader read(Numbers(4),
                        {.batch_size = 4, .collate_fn = [](const std::vector<Sample>& samples) {
                           return Batch{{tensor(samples.back()[1].item<std::int64_t>())}};
                         }});
  EXPECT_THAT(firsts(read), ElementsAre(ElementsAre(30)));
}

// What torch.utils.data's example does with get_worker_info(): every num_workers-th of n numbers.
class Stream : public IterableDataset {
 public:
  explicit Stream(std::int64_t n) : n_(n) {}
  SampleStream iterate() const override {
    const WorkerInfo info = worker_info().value_or(WorkerInfo{});
    return [i = std::int64_t{info.id}, step = info.num_workers,
            n = n_]() mutable -> std::optional<Sample> {
      if (i >= n) return std::nullopt;
      return Sample(tensor(std::exchange(i, i + step)));
    };
  }

 private:
  std::int64_t n_;
};

// Batches as torch.utils.data.DataLoader's, for the same stream.
TEST(IterableDataset, IsDividedAmongWorkersAsPyTorchs) {
  const auto rows = [](int workers, bool drop_last) {
    return firsts(
        DataLoader(Stream(11), {.batch_size = 2, .num_workers = workers, .drop_last = drop_last}));
  };
  const Rows alone = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10}};
  EXPECT_EQ(rows(0, false), alone);
  EXPECT_EQ(rows(1, false), alone);
  EXPECT_EQ(rows(1, true), Rows(alone.begin(), alone.end() - 1));
  EXPECT_EQ(rows(2, false), (Rows{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9}}));
  EXPECT_EQ(rows(2, true), (Rows{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}}));
  EXPECT_EQ(rows(3, false), (Rows{{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8}}));
  EXPECT_EQ(rows(3, true), (Rows{{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}}));
  EXPECT_EQ(rows(20, false).size(), 11U);
}

// Worker i has a number of samples of its own.
class Uneven : public IterableDataset {
 public:
  SampleStream iterate() const override {
    const int id = worker_info().value().id;
    return [id, i = std::int64_t{0}]() mutable -> std::optional<Sample> {
      static constexpr std::int64_t kSamples[] = {1, 5, 3};
      if (i == kSamples[id]) return std::nullopt;
      return Sample(tensor(id * 10 + i++));
    };
  }
};

TEST(IterableDataset, PassesOverWorkersWhoseStreamHasEnded) {
  const DataLoader loader(Uneven(), {.batch_size = 2, .num_workers = 3, .prefetch_factor = 1});
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(firsts(loader), (Rows{{0}, {10, 11}, {20, 21}, {12, 13}, {22}, {14}}));
  }
  EXPECT_THAT([&] { loader.size(); },
              ThrowsMessage<Error>(
                  "DataLoader: size() of an IterableDataset, which has no number of samples"));
  EXPECT_THAT(
      [] { DataLoader(Uneven(), {.shuffle = true}); },
      ThrowsMessage<Error>(
          "DataLoader: shuffle = true of an IterableDataset, which gives the order already"));
}

class Endless : public IterableDataset {
 public:
  explicit Endless(std::int64_t fails_at) : fails_at_(fails_at) {}
  SampleStream iterate() const override {
    return [i = std::int64_t{0}, fails_at = fails_at_]() mutable -> std::optional<Sample> {
      DL_CHECK(i != fails_at, kIo, "the line is dead");
      return Sample(tensor(i++));
    };
  }

 private:
  std::int64_t fails_at_;
};

TEST(IterableDataset, MayBeEndlessAndMayFail) {
  for (const int workers : {0, 2}) {
    const DataLoader loader(Endless(4), {.batch_size = 2, .num_workers = workers});
    DataLoader::Epoch epoch = loader.epoch();
    for (int i = 0; i < 2 * std::max(1, workers); ++i) EXPECT_EQ(epoch.next()->size(), 2);
    const std::string number = workers == 0 ? "2" : "4";
    EXPECT_THAT([&] { epoch.next(); },
                ThrowsMessage<Error>("batch " + number + ": the line is dead"));
    EXPECT_FALSE(epoch.next().has_value());
    EXPECT_TRUE(DataLoader(Endless(-1), {.num_workers = workers}).epoch().next().has_value());
  }
}

TEST(IterableDataset, DrawsTheEpochsNumberOnly) {
  manual_seed(7);
  firsts(DataLoader(Stream(5)));
  EXPECT_EQ(default_generator().random() % 1'000'000, 725721U);
}

// Draws of PyTorch's loaders after torch.manual_seed(7), or from such a generator.
TEST(DataLoader, DrawsInPyTorchsOrderWithEachSampler) {
  const Squares ten(10);
  SubsetRandomSampler subset({9, 1, 4, 6, 2});
  const DataLoader subset_loader(ten, subset, {.batch_size = 4});
  manual_seed(7);
  EXPECT_EQ(firsts(subset_loader), (Rows{{1, 6, 9, 2}, {4}}));
  EXPECT_EQ(firsts(subset_loader), (Rows{{6, 4, 9, 2}, {1}}));
  EXPECT_EQ(default_generator().random() % 1'000'000, 296008U);

  Generator own(7);
  const DataLoader own_loader(ten, {.batch_size = 4, .shuffle = true, .generator = &own});
  EXPECT_EQ(firsts(own_loader), (Rows{{1, 3, 5, 7}, {9, 4, 6, 2}, {8, 0}}));
  EXPECT_EQ(firsts(own_loader), (Rows{{5, 1, 6, 0}, {9, 7, 8, 4}, {3, 2}}));
  EXPECT_EQ(own.random() % 1'000'000, 337979U);

  WeightedRandomSampler weighted({1, 2, 3, 4}, 8);
  const DataLoader weighted_loader(ten, weighted, {.batch_size = 4});
  manual_seed(7);
  EXPECT_EQ(firsts(weighted_loader), (Rows{{1, 3, 3, 3}, {3, 1, 2, 3}}));
  EXPECT_EQ(firsts(weighted_loader), (Rows{{0, 0, 1, 0}, {1, 3, 0, 3}}));
  EXPECT_EQ(default_generator().random() % 1'000'000, 499416U);
}

// Sample i is a random number; i is 3 and 4: a corrupt file.
class Draws : public Dataset {
 public:
  explicit Draws(std::vector<std::int64_t> corrupt = {}) : corrupt_(std::move(corrupt)) {}
  std::int64_t size() const noexcept override { return 8; }
  Sample get(std::int64_t i) const override {
    DL_CHECK(!std::ranges::count(corrupt_, i), kParse, "photo_{}.png is no PNG file", i);
    Generator& generator = sample_generator();
    const std::uint32_t first = generator.random();
    return tensor(std::int64_t{first} + generator.random());
  }

 private:
  std::vector<std::int64_t> corrupt_;
};

TEST(SampleGenerator, DependsOnEpochAndSampleNotOnWorkers) {
  Rows first;
  Rows second;
  for (const int workers : {0, 1, 3}) {
    const DataLoader loader(Draws(), {.batch_size = 3, .num_workers = workers});
    manual_seed(7);
    const Rows rows = firsts(loader);
    const Rows again = firsts(loader);
    EXPECT_NE(rows, again);
    EXPECT_NE(rows[0][0], rows[0][1]);
    if (first.empty()) first = rows, second = again;
    EXPECT_EQ(rows, first);
    EXPECT_EQ(again, second);
    EXPECT_FALSE(worker_info().has_value());
  }
  // A sample keeps its numbers when the order is another.
  const Draws draws;
  SubsetRandomSampler reordered({5, 2, 0, 7});
  Generator seven(7);
  const DataLoader loader(draws, reordered, {.batch_size = 4, .generator = &seven});
  const std::vector<std::int64_t> row = firsts(loader)[0];
  EXPECT_THAT(row,
              testing::UnorderedElementsAre(first[0][0], first[0][2], first[1][2], first[2][1]));
}

TEST(SampleGenerator, IsTheDefaultGeneratorIfAskedFor) {
  manual_seed(7);
  const DataLoader loader(Draws(), {.batch_size = 8, .default_generator_draws = true});
  const Rows rows = firsts(loader);
  manual_seed(7);
  default_generator().random64();  // the epoch's number
  for (const std::int64_t value : rows[0]) {
    const std::int64_t first = default_generator().random();
    EXPECT_EQ(value, first + default_generator().random());
  }
  EXPECT_EQ(&sample_generator(), &default_generator());
  EXPECT_THAT([] { DataLoader(Draws(), {.num_workers = 2, .default_generator_draws = true}); },
              ThrowsMessage<Error>(
                  "DataLoader: default_generator_draws beside 2 workers; only one thread can draw "
                  "default_generator()'s numbers in the samples' order, so num_workers must be 0"));
}

TEST(DataLoader, LeavesOutCorruptSamplesOnlyIfAskedTo) {
  for (const int workers : {0, 2}) {
    const DataLoader strict(Draws({3}), {.batch_size = 2, .num_workers = workers});
    EXPECT_THAT([&] { firsts(strict); },
                ThrowsMessage<Error>("sample 3 (batch 1): photo_3.png is no PNG file"));
    const DataLoader lenient(Draws({3, 4, 5}),
                             {.batch_size = 2, .num_workers = workers, .skip_corrupt = true});
    DataLoader::Epoch epoch = lenient.epoch();
    EXPECT_EQ(epoch.next()->size(), 2);
    EXPECT_EQ(lenient.skipped(), 0);
    EXPECT_EQ(epoch.next()->size(), 1);
    EXPECT_EQ(lenient.skipped(), 1);
    EXPECT_EQ(epoch.next()->size(), 2);  // nothing is left of batch 2
    EXPECT_EQ(lenient.skipped(), 3);
    EXPECT_FALSE(epoch.next().has_value());
    firsts(lenient);
    EXPECT_EQ(lenient.skipped(), 6);
  }
}

// Returns nothing but errors.
class CorruptStream : public IterableDataset {
 public:
  SampleStream iterate() const override {
    return []() -> std::optional<Sample> { throw Error(ErrorKind::kParse, "torn"); };
  }
};

TEST(IterableDataset, IsAnErrorIfItDoesNotComeToANextSample) {
  const DataLoader loader(CorruptStream(), {.batch_size = 2, .skip_corrupt = true});
  EXPECT_THAT([&] { loader.epoch().next(); }, ThrowsMessage<Error>(testing::HasSubstr("torn")));
}

// As Numbers, with corrupt samples.
class Torn : public Numbers {
 public:
  Torn(std::int64_t size, ErrorKind kind) : Numbers(size), kind_(kind) {}
  void before(std::int64_t i) const override {
    if (i % 3 == 1) throw Error(kind_, "torn");
  }

 private:
  ErrorKind kind_;
};

TEST(DataLoader, ABatchHasTwoNamesInEveryKindOfBinding) {
  const DataLoader loader(Numbers(3), {.batch_size = 3});
  for (auto [x, y] : loader) {
    x = zeros({1});  // a handle of the loop's own
    EXPECT_EQ(y.size(0), 3);
  }
  auto [x, y] = *loader.epoch().next();
  const auto [x2, y2] = *loader.epoch().next();
  EXPECT_EQ(integers(y), integers(y2));
  EXPECT_EQ(x.size(0), x2.size(0));
  Batch batch = *loader.epoch().next();
  auto& [first, second] = batch;
  first = zeros({7});
  EXPECT_EQ(batch[0].size(0), 7);
  EXPECT_EQ(batch[1].size(0), second.size(0));
}

TEST(DataLoader, LeavesOutSamplesThatAreReadInPlace) {
  const DataLoader loader(Torn(6, ErrorKind::kParse), {.batch_size = 4, .skip_corrupt = true});
  Rows targets;
  for (auto& [x, y] : loader) {
    EXPECT_EQ(x.size(0), y.size(0));
    targets.push_back(integers(y));
  }
  EXPECT_THAT(targets, ElementsAre(ElementsAre(0, 20, 30), ElementsAre(50)));
  EXPECT_EQ(loader.skipped(), 2);
  const DataLoader broken(Torn(6, ErrorKind::kIo), {.batch_size = 4, .skip_corrupt = true});
  EXPECT_THAT([&] { broken.epoch().next(); }, ThrowsMessage<Error>("sample 1 (batch 0): torn"));
}

}  // namespace
}  // namespace dl::data
