#include "nn/data/data_loader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/unique_fd.h"
#include "core/device/parallel.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

// Sample i is {i, i, i} and i * 10.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const noexcept override { return size_; }
  const std::vector<Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override {
    before(index);
    auto* const triple = reinterpret_cast<float*>(out[0].data());
    for (int i = 0; i < 3; ++i) triple[i] = static_cast<float>(index);
    const std::int64_t ten = index * 10;
    std::memcpy(out[1].data(), &ten, sizeof(ten));
  }

 protected:
  virtual void before(std::int64_t) const {}

 private:
  std::int64_t size_;
  std::vector<Field> fields_ = {{"input", DType::kF32, {3}}, {"target", DType::kI64, {}}};
};

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

TEST(DataLoader, LeavesOutAnIncompleteBatchWhereAskedTo) {
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

class Broken : public Numbers {
 public:
  using Numbers::Numbers;

 protected:
  void before(std::int64_t index) const override {
    DL_CHECK(index != 11, kParse, "a torn page");
    if (index == 20) throw std::runtime_error("not ours");
  }
};

TEST(DataLoader, AnExceptionComesInOrderWithItsSample) {
  const Broken dataset(30);
  SequentialSampler sampler(30);
  for (const int workers : {0, 1, 3}) {
    const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = workers});
    DataLoader::Epoch epoch = loader.epoch();
    EXPECT_TRUE(epoch.next().has_value());
    EXPECT_TRUE(epoch.next().has_value());
    try {
      epoch.next();
      FAIL() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kParse);
      EXPECT_STREQ(error.what(), "sample 11 (batch 2): a torn page");
    }
    EXPECT_FALSE(epoch.next().has_value()) << "the epoch is over";
  }
}

TEST(DataLoader, AForeignExceptionIsNamedToo) {
  const Broken dataset(30);
  DistributedSampler sampler(30, {.shuffle = false});
  sampler.resume({.epoch = 0, .offset = 20});
  const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = 2});
  EXPECT_THAT([&] { loader.epoch().next(); },
              ThrowsMessage<Error>("sample 20 (batch 0): not ours"));
}

TEST(DataLoader, AnIndexBeyondTheDatasetIsAnError) {
  const Numbers dataset(3);
  SequentialSampler sampler(5);
  const DataLoader loader(dataset, sampler, {.batch_size = 5, .num_workers = 1});
  EXPECT_THAT([&] { loader.epoch().next(); },
              ThrowsMessage<Error>("sample 3 (batch 0): the dataset has 3 samples"));
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

// Holds every read of a sample from `from` on until it is opened.
class Gate : public Numbers {
 public:
  Gate(std::int64_t size, std::int64_t from) : Numbers(size), from_(from) {}
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  // Until somebody stands before the gate.
  void wait_for_reader() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_; });
  }

 protected:
  void before(std::int64_t index) const override {
    std::unique_lock lock(mutex_);
    if (index < from_) return;
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::int64_t from_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool waiting_ = false;
  bool open_ = false;
};

// What the process writes to stderr while it lives, as a file descriptor to read from.
class Stderr {
 public:
  Stderr() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe2");
    out_ = UniqueFd(ends[0]);
    before_ = UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;
  ~Stderr() { ::dup2(before_.get(), STDERR_FILENO); }
  // All that was written up to the end of `text`, or until nothing came for 20 s.
  std::string read_until(std::string_view text) {
    std::string all;
    pollfd ready{.fd = out_.get(), .events = POLLIN, .revents = 0};
    while (all.find(text) == all.npos && ::poll(&ready, 1, 20'000) == 1) {
      char piece[256];
      all.append(piece, static_cast<std::size_t>(::read(out_.get(), piece, sizeof(piece))));
    }
    return all;
  }

 private:
  UniqueFd out_;
  UniqueFd before_;
};

TEST(DataLoader, ASampleThatDoesNotComeIsNamedAtTheDeadlineAndWhileItIsWaitedFor) {
  Gate dataset(10, 7);
  DistributedSampler sampler(10, {.num_replicas = 1, .shuffle = false});
  sampler.resume({.epoch = 0, .offset = 7});
  const DataLoader loader(
      dataset, sampler,
      {.batch_size = 2, .num_workers = 1, .timeout = std::chrono::milliseconds(200)});
  std::optional<DataLoader::Epoch> epoch = loader.epoch();
  dataset.wait_for_reader();
  EXPECT_THAT([&] { epoch->next(); },
              ThrowsMessage<Error>("data loader: sample 7 (batch 0) was not read within 0.2 s"));
  Stderr log;
  std::string said;
  std::jthread opener([&] {
    said = log.read_until("return\n");
    dataset.open();
  });
  epoch.reset();
  opener.join();
  EXPECT_THAT(said, testing::HasSubstr(
                        "data loader: the epoch is over, but sample 7 (batch 0) is still being "
                        "read; waiting for Dataset::read to return"));
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
