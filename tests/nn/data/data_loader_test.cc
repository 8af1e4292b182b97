#include "nn/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/device/parallel.h"
#include "nn/data/worker.h"
#include "tests/nn/data/numbers.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

std::vector<std::int64_t> targets(const Batch& batch) {
  const auto* first = batch[1].data<std::int64_t>();
  return {first, first + batch.size()};
}

std::vector<std::vector<std::int64_t>> all_targets(const DataLoader& loader) {
  std::vector<std::vector<std::int64_t>> all;
  for (const Batch& batch : loader) all.push_back(targets(batch));
  return all;
}

TEST(DataLoader, PutsSamplesInTheirPlaceInABatch) {
  const Numbers dataset(5);
  SequentialSampler sampler(5);
  const DataLoader loader(dataset, sampler, {.batch_size = 2});
  EXPECT_EQ(loader.size(), 3);
  DataLoader::Epoch epoch = loader.epoch();
  const Batch first = epoch.next().value();
  EXPECT_EQ(first[0].sizes(), Shape({2, 3}));
  EXPECT_EQ(first[1].sizes(), Shape({2}));
  EXPECT_EQ(first[0].at<float>({1, 2}), 1.0F);
  EXPECT_THAT(targets(first), ElementsAre(0, 10));
  EXPECT_THAT(targets(epoch.next().value()), ElementsAre(20, 30));
  EXPECT_THAT(targets(epoch.next().value()), ElementsAre(40));
  EXPECT_FALSE(epoch.next().has_value());
  EXPECT_FALSE(epoch.next().has_value());
}

// torch.manual_seed(7), two epochs of DataLoader(range(10), shuffle=True, batch_size=4), and then
// torch.randint(0, 1000000, (1,)).
TEST(DataLoader, ShufflesAsPyTorchDoesWithTheSameSeed) {
  const Numbers dataset(10);
  for (const int workers : {0, 2}) {
    RandomSampler sampler(10);
    const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = workers});
    manual_seed(7);
    EXPECT_THAT(all_targets(loader), ElementsAre(ElementsAre(30, 20, 70, 80),
                                                 ElementsAre(60, 10, 50, 90), ElementsAre(0, 40)));
    EXPECT_THAT(all_targets(loader), ElementsAre(ElementsAre(10, 30, 50, 20),
                                                 ElementsAre(80, 90, 60, 70), ElementsAre(40, 0)));
    EXPECT_EQ(default_generator().random() % 1'000'000, 432988U);
  }
  SequentialSampler in_order(10);
  manual_seed(7);
  all_targets(DataLoader(dataset, in_order, {.batch_size = 4}));
  EXPECT_EQ(default_generator().random() % 1'000'000, 725721U);
}

TEST(DataLoader, ShufflesWithoutASamplerAsWithARandomOne) {
  const Numbers dataset(10);
  RandomSampler sampler(10);
  manual_seed(7);
  const auto sampled = all_targets(DataLoader(dataset, sampler, {.batch_size = 4}));
  manual_seed(7);
  EXPECT_EQ(all_targets(DataLoader(dataset, {.batch_size = 4, .shuffle = true})), sampled);
  EXPECT_THAT(all_targets(DataLoader(dataset, {.batch_size = 8})),
              ElementsAre(ElementsAre(0, 10, 20, 30, 40, 50, 60, 70), ElementsAre(80, 90)));
  EXPECT_THAT([&] { DataLoader(dataset, sampler, {.shuffle = true}); },
              ThrowsMessage<Error>("DataLoader: shuffle = true beside a sampler, which gives the "
                                   "order already"));
}

class TwoBatches : public BatchSampler {
 public:
  explicit TwoBatches(std::vector<std::vector<std::int64_t>> batches)
      : batches_(std::move(batches)) {}
  std::int64_t size() const noexcept override { return 2; }
  std::vector<std::vector<std::int64_t>> batches() override { return batches_; }

 private:
  std::vector<std::vector<std::int64_t>> batches_;
};

TEST(DataLoader, TakesTheBatchesOfABatchSampler) {
  const Numbers dataset(10);
  TwoBatches sampler({{3, 1, 2}, {9}});
  for (const int workers : {0, 2}) {
    const DataLoader loader(dataset, sampler, {.num_workers = workers});
    EXPECT_EQ(loader.size(), 2);
    EXPECT_THAT(all_targets(loader), ElementsAre(ElementsAre(30, 10, 20), ElementsAre(90)));
  }
  EXPECT_THAT([&] { DataLoader(dataset, sampler, {.batch_size = 3}); },
              ThrowsMessage<Error>("DataLoader: shuffle, batch_size or drop_last beside a batch "
                                   "sampler, which gives the batches already"));
  TwoBatches empty({{3}, {}});
  EXPECT_THAT([&] { DataLoader(dataset, empty).epoch(); },
              ThrowsMessage<Error>("DataLoader: batch 1 of the batch sampler holds no sample"));
  TwoBatches single(std::vector<std::vector<std::int64_t>>{{3}});
  EXPECT_THAT([&] { DataLoader(dataset, single).epoch(); },
              ThrowsMessage<Error>("DataLoader: the batch sampler's size() is 2, but its batches() "
                                   "returned 1; both must be the number of batches in an epoch"));
}

TEST(DataLoader, OwnsATemporaryDataset) {
  const DataLoader loader(Numbers(3), {.batch_size = 3});
  EXPECT_THAT(all_targets(loader), ElementsAre(ElementsAre(0, 10, 20)));
}

TEST(DataLoader, LeavesOutAnIncompleteBatchIfAsked) {
  const Numbers dataset(5);
  SequentialSampler sampler(5);
  const DataLoader loader(dataset, sampler, {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(loader.size(), 2);
  EXPECT_THAT(all_targets(loader), ElementsAre(ElementsAre(0, 10), ElementsAre(20, 30)));
}

TEST(DataLoader, GivesTheSameBatchesForAnyNumberOfWorkers) {
  const Numbers dataset(503);
  const auto order = [&](int workers, int prefetch) {
    manual_seed(3);
    RandomSampler sampler(503);
    const DataLoader loader(dataset, sampler,
                            {.batch_size = 7, .num_workers = workers, .prefetch_factor = prefetch});
    auto all = all_targets(loader);
    const auto second = all_targets(loader);
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  const auto alone = order(0, 2);
  EXPECT_EQ(alone.size(), 2U * 72);
  for (const auto& [workers, prefetch] : {std::pair{1, 1}, {1, 4}, {3, 1}, {4, 2}, {100, 1}}) {
    EXPECT_EQ(order(workers, prefetch), alone) << workers << " workers";
  }
}

TEST(DataLoader, ABatchOutlivesItsEpoch) {
  const Numbers dataset(4);
  SequentialSampler sampler(4);
  std::optional<Batch> kept;
  {
    const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = 1});
    kept = loader.epoch().next();
  }
  EXPECT_THAT(targets(*kept), ElementsAre(0, 10, 20, 30));
}

TEST(DataLoader, LeavingAnEpochEarlyStopsItsWorkers) {
  const Numbers dataset(100000);
  SequentialSampler sampler(100000);
  const DataLoader loader(dataset, sampler, {.batch_size = 8, .num_workers = 3});
  for (int i = 0; i < 20; ++i) {
    DataLoader::Epoch epoch = loader.epoch();
    for (int k = 0; k < i % 4; ++k) EXPECT_TRUE(epoch.next().has_value());
  }
}

class Watched : public Numbers {
 public:
  using Numbers::Numbers;
  mutable std::atomic<std::int64_t> reads = 0;
  mutable std::atomic<int> widest_region = 0;

 protected:
  void before(std::int64_t) const override {
    ++reads;
    int threads = 0;
    parallel_for(1 << 20, 1,
                 [&](std::int64_t, std::int64_t) { std::atomic_ref(threads).fetch_add(1); });
    widest_region = std::max(widest_region.load(), threads);
  }
};

TEST(DataLoader, ReadsAheadNoFurtherThanItWasTold) {
  const Watched dataset(1000);
  SequentialSampler sampler(1000);
  const DataLoader loader(dataset, sampler,
                          {.batch_size = 10, .num_workers = 2, .prefetch_factor = 3});
  {
    DataLoader::Epoch epoch = loader.epoch();
    for (int i = 0; i < 5; ++i) epoch.next();
    EXPECT_LE(dataset.reads, (5 + 2 * 3) * 10);
  }
  EXPECT_GE(dataset.reads, 50);
}

TEST(DataLoader, WorkersRunParallelLoopsAlone) {
  const Watched dataset(64);
  SequentialSampler sampler(64);
  const DataLoader loader(dataset, sampler, {.batch_size = 8, .num_workers = 2});
  for ([[maybe_unused]] const Batch& batch : loader) {
  }
  EXPECT_EQ(dataset.widest_region, 1);
}

TEST(DataLoader, TakesNoMoreMemoryAndThreadsThanItHasBatches) {
  constexpr int kMost = std::numeric_limits<int>::max();
  const Numbers dataset(5);
  SequentialSampler sampler(5);
  for (const auto& [workers, prefetch] : {std::pair{kMost, 1}, {2, kMost}, {kMost, kMost}}) {
    const DataLoader loader(dataset, sampler,
                            {.batch_size = 2, .num_workers = workers, .prefetch_factor = prefetch});
    EXPECT_THAT(all_targets(loader),
                ElementsAre(ElementsAre(0, 10), ElementsAre(20, 30), ElementsAre(40)));
  }
}

TEST(DataLoader, CallsWorkerInitFnOnEachWorkerOfAnEpoch) {
  const Numbers dataset(8);
  std::atomic<int> calls = 0;
  std::atomic<int> sum = 0;
  std::atomic<bool> is_worker = true;
  std::barrier<> all_workers(3);  // else one may do all work before another has started
  const DataLoader loader(dataset,
                          {.batch_size = 2, .num_workers = 3, .worker_init_fn = [&](int worker) {
                             const auto info = worker_info();
                             if (!info || info->id != worker || info->num_workers != 3) {
                               is_worker = false;
                             }
                             ++calls;
                             sum += worker;
                             all_workers.arrive_and_wait();
                           }});
  const auto first = all_targets(loader);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(sum, 0 + 1 + 2);
  EXPECT_EQ(all_targets(loader), first);
  EXPECT_EQ(calls, 6);
  EXPECT_TRUE(is_worker);

  calls = 0;
  const DataLoader alone(dataset, {.worker_init_fn = [&](int) { ++calls; }});
  EXPECT_EQ(all_targets(alone).size(), 8u);
  EXPECT_EQ(calls, 0);
}

TEST(DataLoader, NextThrowsWhatWorkerInitFnThrows) {
  const Numbers dataset(8);
  for (const bool persistent : {false, true}) {
    std::atomic<bool> fails = true;
    const DataLoader loader(dataset, {.num_workers = 2,
                                      .worker_init_fn =
                                          [&](int) {
                                            if (fails) throw std::out_of_range("no such device");
                                          },
                                      .persistent_workers = persistent});
    {
      DataLoader::Epoch epoch = loader.epoch();
      EXPECT_THAT([&] { epoch.next(); }, ThrowsMessage<std::out_of_range>("no such device"));
      EXPECT_FALSE(epoch.next().has_value());
    }
    fails = false;  // it is called again, as it has not succeeded
    EXPECT_EQ(all_targets(loader).size(), 8u);
  }
}

TEST(DataLoader, PersistentWorkersAreTheSameThreadsInAllEpochs) {
  const Numbers dataset(12);
  Mutex mutex;
  std::vector<std::thread::id> threads;
  std::condition_variable both;  // else one may do all work before the other has started
  const auto note = [&](int) {
    Lock lock(mutex);
    threads.push_back(std::this_thread::get_id());
    both.notify_all();
    both.wait(lock.native(), [&] { return threads.size() >= 2; });
  };
  const DataLoader plain(dataset, {.batch_size = 2, .num_workers = 2});
  const DataLoader loader(
      dataset,
      {.batch_size = 2, .num_workers = 2, .worker_init_fn = note, .persistent_workers = true});
  const auto wanted = all_targets(plain);
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(all_targets(loader), wanted);
  {
    DataLoader::Epoch left_early = loader.epoch();
    left_early.next();
    EXPECT_THAT([&] { loader.epoch(); },
                ThrowsMessage<Error>("DataLoader: persistent_workers are in another epoch of this "
                                     "loader; end it first"));
  }
  EXPECT_EQ(all_targets(loader), wanted);
  EXPECT_EQ(threads.size(), 2u);
  EXPECT_THAT([&] { DataLoader(dataset, {.persistent_workers = true}); },
              ThrowsMessage<Error>("DataLoader: persistent_workers beside num_workers = 0, which "
                                   "leaves no worker to keep"));
}

// The epoch uses the threads of a loader that is gone.
TEST(DataLoader, AnEpochOutlivesItsPersistentLoader) {
  const Numbers dataset(6);
  auto loader = std::make_unique<DataLoader>(
      dataset, DataLoaderOptions{.batch_size = 2, .num_workers = 2, .persistent_workers = true});
  DataLoader::Epoch epoch = loader->epoch();
  loader.reset();
  int batches = 0;
  while (epoch.next()) ++batches;
  EXPECT_EQ(batches, 3);
}

TEST(DataLoader, AnEmptySamplerGivesNoBatch) {
  const Numbers dataset(0);
  SequentialSampler sampler(0);
  const DataLoader loader(dataset, sampler, {.batch_size = 8, .num_workers = 2});
  EXPECT_EQ(loader.size(), 0);
  EXPECT_FALSE(loader.epoch().next().has_value());
}

TEST(DataLoader, RefusesOptionsThatMakeNoBatches) {
  const Numbers dataset(3);
  SequentialSampler sampler(3);
  EXPECT_THAT([&] { DataLoader(dataset, sampler, {.batch_size = 0}); },
              ThrowsMessage<Error>("DataLoader: batch_size is 0, wanted at least 1"));
  EXPECT_THROW(DataLoader(dataset, sampler, {.num_workers = -1}), Error);
  EXPECT_THROW(DataLoader(dataset, sampler, {.prefetch_factor = 0}), Error);
}

}  // namespace
}  // namespace dl::data
