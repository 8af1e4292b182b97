// What goes wrong in a dataset, a sampler or a worker, and how the loop hears of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/autograd/function.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/log/warn_once.h"
#include "core/base/system/machine/limits.h"
#include "core/device/cuda/cuda.h"
#include "core/tensor/factories.h"
#include "nn/data/data_loader.h"
#include "tests/nn/data/numbers.h"
#include "tests/support/no_threads.h"
#include "tests/support/stderr_lines.h"

namespace dl::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using tests::StderrLines;

class TornPage : public std::runtime_error {
 public:
  explicit TornPage(int number) : std::runtime_error("a torn page"), page(number) {}
  int page;
};

// Not derived from std::exception.
struct Odd {
  int value;
};

// Throws what `fail` throws when sample 11 is read.
class Broken : public Numbers {
 public:
  explicit Broken(void (*fail)()) : Numbers(30), fail_(fail) {}

 protected:
  void before(std::int64_t index) const override {
    if (index == 11) fail_();
  }

 private:
  void (*fail_)();
};

// Two batches come, then the exception, then the epoch is over; for any number of workers.
template <typename Thrown, typename Check>
void expect_thrown(void (*fail)(), const Check& check) {
  const Broken dataset(fail);
  SequentialSampler sampler(30);
  for (const int workers : {0, 1, 3}) {
    const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = workers});
    DataLoader::Epoch epoch = loader.epoch();
    EXPECT_TRUE(epoch.next().has_value());
    EXPECT_TRUE(epoch.next().has_value());
    bool caught = false;
    try {
      epoch.next();
    } catch (const Thrown& thrown) {
      caught = true;
      check(thrown);
    } catch (...) {
    }
    EXPECT_TRUE(caught) << workers << " workers: none, or of another type";
    EXPECT_FALSE(epoch.next().has_value()) << "the epoch is over";
  }
}

TEST(DataLoaderErrors, OfDlrunComeInOrderWithKindAndSample) {
  expect_thrown<Error>([] { throw_error(ErrorKind::kParse, "a torn page"); },
                       [](const Error& error) {
                         EXPECT_EQ(error.kind(), ErrorKind::kParse);
                         EXPECT_STREQ(error.what(), "sample 11 (batch 2): a torn page");
                       });
}

TEST(DataLoaderErrors, OfTheStandardKeepTheirTypeAndNameTheSample) {
  expect_thrown<std::runtime_error>([] { throw std::runtime_error("a torn page"); },
                                    [](const std::runtime_error& error) {
                                      EXPECT_EQ(typeid(error), typeid(std::runtime_error));
                                      EXPECT_STREQ(error.what(),
                                                   "sample 11 (batch 2): a torn page");
                                    });
  expect_thrown<std::out_of_range>(
      [] { static_cast<void>(std::vector<int>().at(7)); },
      [](const std::out_of_range& error) {
        EXPECT_THAT(error.what(), testing::StartsWith("sample 11 (batch 2): vector::"));
      });
}

TEST(DataLoaderErrors, KeepOtherTypesAndLogTheSample) {
  StderrLines log;
  expect_thrown<TornPage>([] { throw TornPage(5); },
                          [](const TornPage& error) {
                            EXPECT_EQ(error.page, 5);
                            EXPECT_STREQ(error.what(), "a torn page");
                          });
  EXPECT_THAT(log.line_with("TornPage"),
              AllOf(HasSubstr("data loader: sample 11 (batch 2): the dataset threw "),
                    HasSubstr("TornPage: a torn page")));
  expect_thrown<std::system_error>(
      [] { throw std::system_error(std::make_error_code(std::errc::io_error)); },
      [](const std::system_error& error) { EXPECT_EQ(error.code(), std::errc::io_error); });
  expect_thrown<std::bad_alloc>([] { throw std::bad_alloc(); }, [](const std::bad_alloc&) {});
}

TEST(DataLoaderErrors, ThatAreNoStdExceptionReachTheLoop) {
  StderrLines log;
  expect_thrown<int>([] { throw 42; }, [](int value) { EXPECT_EQ(value, 42); });
  EXPECT_THAT(log.line_with(" int"),
              HasSubstr("data loader: sample 11 (batch 2): the dataset threw int, which is no "
                        "std::exception"));
  expect_thrown<Odd>([] { throw Odd{7}; }, [](const Odd& odd) { EXPECT_EQ(odd.value, 7); });
}

// Calls check(exception) with what the first next() throws, for no worker and for some.
template <typename Thrown, typename Check>
void expect_thrown_by_collate(const CollateFunction& collate, const Check& check) {
  for (const int workers : {0, 2}) {
    const DataLoader loader(Numbers(30),
                            {.batch_size = 4, .num_workers = workers, .collate_fn = collate});
    DataLoader::Epoch epoch = loader.epoch();
    bool caught = false;
    try {
      epoch.next();
    } catch (const Thrown& thrown) {
      caught = true;
      check(thrown);
    }
    EXPECT_TRUE(caught) << workers << " workers";
  }
}

TEST(DataLoaderErrors, OfACollateFunctionKeepTypeAndNameTheBatch) {
  using Samples = std::vector<Sample>;
  expect_thrown_by_collate<Error>(
      [](const Samples&) -> Batch { throw_error(ErrorKind::kShape, "too wide"); },
      [](const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kShape);
        EXPECT_STREQ(error.what(), "batch 0: too wide");
      });
  expect_thrown_by_collate<std::invalid_argument>(
      [](const Samples&) -> Batch { throw std::invalid_argument("too wide"); },
      [](const std::invalid_argument& error) { EXPECT_STREQ(error.what(), "batch 0: too wide"); });
  StderrLines log;
  expect_thrown_by_collate<TornPage>([](const Samples&) -> Batch { throw TornPage(3); },
                                     [](const TornPage& error) {
                                       EXPECT_EQ(error.page, 3);
                                       EXPECT_STREQ(error.what(), "a torn page");
                                     });
  EXPECT_THAT(log.line_with("TornPage"),
              HasSubstr("data loader: batch 0: the dataset or the collate function threw "));
}

struct TornFunction : autograd::Function<TornFunction> {
  static Tensor forward(autograd::AutogradContext* /*ctx*/, const Tensor& x) { return x.clone(); }
  static autograd::TensorList backward(autograd::AutogradContext* /*ctx*/,
                                       autograd::TensorList /*grads*/) {
    throw TornPage(8);
  }
};

// A dataset may run a backward pass of its own.
TEST(DataLoaderErrors, OfHooksAndFunctionsOfAutogradKeepTheirType) {
  expect_thrown<Odd>(
      [] {
        const Tensor x = ones({1}).requires_grad_();
        x.register_hook([](const Tensor&) -> Tensor { throw Odd{9}; });
        x.clone().backward();
      },
      [](const Odd& odd) { EXPECT_EQ(odd.value, 9); });
  expect_thrown<TornPage>([] { TornFunction::apply(ones({1}).requires_grad_()).backward(); },
                          [](const TornPage& error) { EXPECT_EQ(error.page, 8); });
}

TEST(DataLoaderErrors, AnIndexBeyondTheDatasetIsNamed) {
  const Numbers dataset(3);
  SequentialSampler sampler(5);
  const DataLoader loader(dataset, sampler, {.batch_size = 5, .num_workers = 1});
  EXPECT_THAT([&] { loader.epoch().next(); },
              ThrowsMessage<Error>("sample 3 (batch 0): the dataset has 3 samples"));
}

// A sampler that announces one number of indices and gives another.
class Liar : public Sampler {
 public:
  Liar(std::int64_t announced, std::int64_t given) : announced_(announced), given_(given) {}
  std::int64_t size() const noexcept override { return announced_; }
  std::vector<std::int64_t> indices() override {
    if (given_ < 0) throw Odd{static_cast<int>(given_)};
    return std::vector<std::int64_t>(static_cast<std::size_t>(given_));
  }

 private:
  std::int64_t announced_;
  std::int64_t given_;
};

TEST(DataLoaderErrors, ASamplerWithAWrongSizeIsRefused) {
  const Numbers dataset(10);
  for (const int workers : {0, 2}) {
    for (const std::int64_t given : {7, 0, 11}) {
      Liar sampler(10, given);
      const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = workers});
      EXPECT_THAT([&] { loader.epoch(); },
                  ThrowsMessage<Error>("DataLoader: the sampler's size() is 10, but its indices() "
                                       "returned " +
                                       std::to_string(given) +
                                       "; both must be the number of samples in an epoch"));
    }
    Liar thrower(10, -1);
    EXPECT_THROW(DataLoader(dataset, thrower, {.num_workers = workers}).epoch(), Odd);
  }
}

// Holds every read of a sample from `from` on until it is opened.
class Held : public Numbers {
 public:
  Held(std::int64_t size, std::int64_t from) : Numbers(size), from_(from) {}
  ~Held() override { gone_.set_value(); }
  void open() {
    // With the lock: a reader that goes on may destroy this.
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Until a worker reads such a sample.
  void wait_for_reader() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_; });
  }
  std::future<void> gone() { return gone_.get_future(); }

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
  std::promise<void> gone_;
};

TEST(DataLoaderErrors, NameALateSampleBeforeAndAtTheDeadline) {
  Held dataset(10, 7);
  DistributedSampler sampler(10, {.num_replicas = 1, .shuffle = false});
  sampler.resume({.epoch = 0, .offset = 7});
  const DataLoader loader(dataset, sampler,
                          {.batch_size = 2,
                           .num_workers = 1,
                           .timeout = std::chrono::milliseconds(200),
                           .stop_timeout = std::chrono::minutes(5)});
  std::optional<DataLoader::Epoch> epoch = loader.epoch();
  dataset.wait_for_reader();
  EXPECT_THAT([&] { epoch->next(); },
              ThrowsMessage<Error>("data loader: sample 7 (batch 0) was not read within 0.2 s"));
  StderrLines log;
  std::string said;
  std::jthread opener([&] {
    said = log.line_with("still being read");
    dataset.open();
  });
  epoch.reset();
  opener.join();
  EXPECT_THAT(said, HasSubstr("data loader: the epoch is over, but sample 7 (batch 0) is still "
                              "being read; waiting "));
}

TEST(DataLoaderErrors, AStuckWorkerIsLeftWithItsDataset) {
  auto dataset = std::make_shared<Held>(10, 7);
  Held& held = *dataset;
  std::future<void> gone = held.gone();
  SequentialSampler sampler(10);
  {
    StderrLines log;
    {
      const DataLoader loader(std::move(dataset), sampler,
                              {.num_workers = 2,
                               .timeout = std::chrono::milliseconds(200),
                               .stop_timeout = std::chrono::milliseconds(100)});
      DataLoader::Epoch epoch = loader.epoch();
      for (int i = 0; i < 7; ++i) EXPECT_TRUE(epoch.next().has_value());
      held.wait_for_reader();
      EXPECT_THAT(
          [&] { epoch.next(); },
          ThrowsMessage<Error>("data loader: sample 7 (batch 7) was not read within 0.2 s"));
    }  // returns although the read does not
    EXPECT_THAT(log.line_with("left behind"),
                AllOf(HasSubstr("is still being read 0.1 s after the end of the epoch"),
                      HasSubstr("needs the dataset until Dataset::read returns")));
  }
  EXPECT_EQ(gone.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  held.open();
  EXPECT_EQ(gone.wait_for(std::chrono::minutes(2)), std::future_status::ready)
      << "the last worker that is left behind lets go of the dataset";
}

TEST(DataLoaderErrors, AStuckWorkerInitFnIsLeftBehind) {
  struct Gate {
    std::promise<void> begun;
    std::promise<void> open;
  };
  const auto gate = std::make_shared<Gate>();
  auto dataset = std::make_shared<Held>(10, 10);
  std::future<void> gone = dataset->gone();
  SequentialSampler sampler(10);
  StderrLines log;
  {
    const DataLoader loader(std::move(dataset), sampler,
                            {.num_workers = 1,
                             .stop_timeout = std::chrono::milliseconds(100),
                             .worker_init_fn = [gate](int) {
                               gate->begun.set_value();
                               gate->open.get_future().wait();
                             }});
    const DataLoader::Epoch epoch = loader.epoch();
    gate->begun.get_future().wait();
  }  // returns although the function does not
  EXPECT_THAT(
      log.line_with("left behind"),
      AllOf(HasSubstr("data loader: worker_init_fn of worker 0 is still running 0.1 s after "
                      "the end of the epoch"),
            HasSubstr("needs the dataset until worker_init_fn returns")));
  gate->open.set_value();
  EXPECT_EQ(gone.wait_for(std::chrono::minutes(2)), std::future_status::ready);
}

TEST(DataLoaderErrors, AnErrorDoesNotWaitForOtherWorkers) {
  // Sample 3 fails while another worker is stuck with sample 7.
  class StuckAndBroken : public Held {
   public:
    StuckAndBroken() : Held(10, 7) {}

   protected:
    void before(std::int64_t index) const override {
      if (index == 3) wait_for_reader();
      DL_CHECK(index != 3, kParse, "a torn page");
      Held::before(index);
    }
  };
  StuckAndBroken dataset;
  class Jumps : public Sampler {
   public:
    std::int64_t size() const noexcept override { return 2; }
    std::vector<std::int64_t> indices() override { return {3, 7}; }
  } sampler;
  const DataLoader loader(dataset, sampler, {.num_workers = 2});
  DataLoader::Epoch epoch = loader.epoch();
  EXPECT_THAT([&] { epoch.next(); }, ThrowsMessage<Error>("sample 3 (batch 0): a torn page"));
  dataset.open();
}

TEST(DataLoaderErrors, UsesThatHaveNoAnswerAreRefused) {
  const Numbers dataset(4);
  SequentialSampler sampler(4);
  const DataLoader loader(dataset, sampler, {.batch_size = 4, .num_workers = 1});
  DataLoader::Epoch epoch = loader.epoch();
  const Batch batch = epoch.next().value();
  EXPECT_THAT([&] { static_cast<void>(batch[2]); },
              ThrowsMessage<Error>("Batch: there is no field 2 among 2"));
  EXPECT_EQ(Batch().size(), 0);
  const DataLoader::Epoch other = std::move(epoch);
  EXPECT_THAT([&] { epoch.next(); },  // NOLINT(bugprone-use-after-move)
              ThrowsMessage<Error>("DataLoader: next() of an epoch that was moved from"));
  DataLoader::Iterator it = loader.begin();
  ++it;
  EXPECT_THAT([&] { static_cast<void>(*it); },
              ThrowsMessage<Error>("DataLoader: the iterator is at the end"));
  EXPECT_THAT([&] { DataLoader(std::shared_ptr<const Dataset>(), sampler); },
              ThrowsMessage<Error>("DataLoader: the dataset is null"));
}

class Fieldless : public Dataset {
 public:
  explicit Fieldless(std::vector<Field> fields) : fields_(std::move(fields)) {}
  std::int64_t size() const noexcept override { return 1; }
  const std::vector<Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t, std::span<const std::span<std::byte>>) const override {}

 private:
  std::vector<Field> fields_;
};

TEST(DataLoaderErrors, FieldsThatMakeNoBatchAreRefused) {
  SequentialSampler sampler(1);
  EXPECT_THAT([&] { DataLoader(Fieldless({}), sampler).epoch().next(); },
              ThrowsMessage<Error>("sample 0 (batch 0): Dataset: neither get() nor fields() and "
                                   "read() are overridden"));
  EXPECT_THAT([&] { DataLoader(Fieldless({{"input", DType::kF32, {2, -1}}}), sampler); },
              ThrowsMessage<Error>("DataLoader: field \"input\" has a dimension of size -1, wanted "
                                   "at least 0"));
}

TEST(DataLoaderErrors, RefusesNegativeTimeoutsAndAnEmptyShuffle) {
  const Numbers dataset(4);
  EXPECT_THAT([&] { DataLoader(dataset, {.timeout = std::chrono::seconds(-2)}); },
              ThrowsMessage<Error>("DataLoader: timeout is -2 s, wanted at least 0"));
  EXPECT_THAT([&] { DataLoader(dataset, {.stop_timeout = std::chrono::milliseconds(-500)}); },
              ThrowsMessage<Error>("DataLoader: stop_timeout is -0.5 s, wanted at least 0"));
  const Numbers none(0);
  EXPECT_THAT([&] { DataLoader(none, {.shuffle = true}); },
              ThrowsMessage<Error>(HasSubstr("DataLoader: the dataset is empty, so that shuffle = "
                                             "true has no sample to draw; look at its path")));
  EXPECT_FALSE(DataLoader(none).epoch().next().has_value());
}

// As PyTorch's 0. The sample is read only after the loop has begun to wait for it.
TEST(DataLoader, ATimeoutOf0IsNoLimit) {
  class Late : public Numbers {
   public:
    explicit Late(std::shared_future<void> go) : Numbers(1), go_(std::move(go)) {}

   protected:
    void before(std::int64_t) const override { go_.wait(); }

   private:
    std::shared_future<void> go_;
  };
  std::promise<void> go;
  const Late dataset(go.get_future().share());
  const DataLoader loader(dataset, {.num_workers = 1, .timeout = std::chrono::seconds(0)});
  DataLoader::Epoch epoch = loader.epoch();
  std::thread other([&] { go.set_value(); });
  EXPECT_TRUE(epoch.next().has_value());
  EXPECT_FALSE(epoch.next().has_value());
  other.join();
}

TEST(DataLoader, NamesTheLimitIfAWorkerGetsNoThread) {
  const Numbers dataset(4);
  const DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2});
  const tests::NoThreads no_threads;
  try {
    loader.epoch();
    FAIL() << "there is a thread";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_EQ(error.what(), "data loader: 2 workers were asked for, but thread 0 did not start: " +
                                spawn_error_text(EAGAIN));
  }
}

// As PyTorch: a warning, once, and batches in ordinary memory.
TEST(DataLoader, GoesOnWithoutPinnedMemoryIfThereIsNoGpu) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  const Numbers dataset(4);
  detail::forget_written_lines();
  testing::internal::CaptureStderr();
  for (const int workers : {0, 1, 2}) {
    const DataLoader loader(dataset, {.batch_size = 2, .num_workers = workers, .pin_memory = true});
    int batches = 0;
    for (const Batch& batch : loader) {
      EXPECT_FALSE(batch[0].is_pinned());
      ++batches;
    }
    EXPECT_EQ(batches, 2);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string line = "pin_memory = true, but there is no GPU here: batches are not pinned";
  EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(text.find(line), text.rfind(line)) << text;
}

}  // namespace
}  // namespace dl::data
