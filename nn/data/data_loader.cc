#include "nn/data/data_loader.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/cpus.h"
#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/parallel.h"
#include "core/random/distributions.h"
#include "core/tensor/factories.h"
#include "nn/data/batch_order.h"
#include "nn/data/sample_error.h"

namespace dl::data {
namespace {

constexpr std::chrono::seconds kPatience{5};  // before the log says who is waited for

Shape batch_shape(std::int64_t count, const Field& field) {
  Shape shape(1 + field.shape.size(), count);
  std::copy(field.shape.begin(), field.shape.end(), shape.begin() + 1);
  return shape;
}

void check_fields(const std::vector<Field>& fields) {
  DL_CHECK(!fields.empty(), kInvalidArgument,
           "DataLoader: the dataset has no fields; fields() lists what a sample consists of");
  for (const Field& field : fields) {
    for (const std::int64_t size : field.shape) {
      DL_CHECK(size >= 0, kInvalidArgument,
               "DataLoader: field \"{}\" has a dimension of size {}, wanted at least 0", field.name,
               size);
    }
  }
}

std::shared_ptr<const Dataset> checked(const DatasetRef& dataset,
                                       const DataLoaderOptions& options) {
  DL_CHECK(dataset.share() != nullptr, kInvalidArgument, "DataLoader: the dataset is null");
  check_fields(dataset->fields());
  DL_CHECK(options.batch_size >= 1, kInvalidArgument,
           "DataLoader: batch_size is {}, wanted at least 1", options.batch_size);
  DL_CHECK(options.num_workers >= 0, kInvalidArgument,
           "DataLoader: num_workers is {}, wanted at least 0", options.num_workers);
  DL_CHECK(options.prefetch_factor >= 1, kInvalidArgument,
           "DataLoader: prefetch_factor is {}, wanted at least 1", options.prefetch_factor);
  return dataset.share();
}

}  // namespace

// One epoch: its owner and its workers share it, so that a worker that is left behind in a read()
// finds it when that returns. Nothing but read() and size() touches the dataset.
class DataLoader::Epoch::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, BatchOrder order, const DataLoaderOptions& options,
       int workers)
      : dataset_(std::move(dataset)),
        fields_(dataset_->fields()),
        order_(std::move(order)),
        options_(options),
        batches_(order_.size()),
        slots_(static_cast<std::size_t>(
            std::min(std::int64_t{workers} * options.prefetch_factor, batches_))) {}

  std::optional<Batch> next() {
    if (delivered_ == batches_) return std::nullopt;
    if (options_.num_workers == 0) {
      const std::int64_t number = std::exchange(delivered_, batches_);
      SamplePlace place{.batch = number};
      Batch batch;
      try {
        batch = read(place, [](std::int64_t) { return true; });
      } catch (...) {
        rethrow_for_sample(std::current_exception(), place);
      }
      delivered_ = number + 1;
      return batch;
    }
    std::unique_lock lock(mutex_);
    Slot& slot = wait_for(delivered_, lock);
    const std::exception_ptr error = std::exchange(slot.error, nullptr);
    const SamplePlace place{.batch = delivered_, .sample = slot.sample};
    Batch batch = std::exchange(slot.batch, {});
    slot.ready = false;
    ++delivered_;
    if (error) {
      delivered_ = batches_;
      stopping_ = true;
    }
    lock.unlock();
    if (error) {
      room_.notify_all();
      rethrow_for_sample(error, place);
    }
    room_.notify_one();
    return batch;
  }

  // What a worker's thread runs.
  void work() {
    const SerialScope no_parallel_regions;
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] {
        return stopping_ || taken_ == batches_ ||
               taken_ < delivered_ + static_cast<std::int64_t>(slots_.size());
      });
      if (stopping_ || taken_ == batches_) break;
      const std::int64_t batch = taken_++;
      Slot& slot = slot_of(batch);
      slot.number = batch;
      slot.sample.reset();
      slot.reading = true;
      lock.unlock();
      SamplePlace place{.batch = batch};
      Batch result;
      std::exception_ptr error;
      try {
        result = read(place, [&](std::int64_t sample) {
          const std::lock_guard guard(mutex_);
          slot.sample = sample;
          return !stopping_;
        });
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot.batch = std::move(result);
      slot.error = std::move(error);
      slot.sample = place.sample;
      slot.reading = false;
      slot.ready = true;
      ready_.notify_one();
    }
    // A worker that found nothing left to take wakes the next one to find the same.
    room_.notify_one();
  }

  // Tells the workers to end and waits, for stop_timeout at most, until none is in a read().
  // Returns whether that is so. Says in the log who is waited for: at once where next() gave up on
  // a batch already, else after 5 s.
  bool stop() noexcept {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    room_.notify_all();
    const auto reading = [this] { return std::ranges::find(slots_, true, &Slot::reading); };
    const auto idle = [&] { return reading() == slots_.end(); };
    const Deadline deadline = Deadline::after(options_.stop_timeout);
    const Deadline notice =
        Deadline::earlier(deadline, Deadline::after(late_ ? std::chrono::seconds(0) : kPatience));
    if (ready_.wait_until(lock, notice.when(), idle)) return true;
    if (!deadline.has_passed()) {
      log::warning("data loader: the epoch is over, but {} is still being read; waiting {} s more",
                   sample_text(*reading()), std::chrono::duration<double>(deadline.left()).count());
      if (ready_.wait_until(lock, deadline.when(), idle)) return true;
    }
    log::error(
        "data loader: {} is still being read {} s after the end of the epoch; its thread is left "
        "behind, and needs the dataset until Dataset::read returns",
        sample_text(*reading()), std::chrono::duration<double>(options_.stop_timeout).count());
    return false;
  }

 private:
  struct Slot {
    Batch batch{};
    std::exception_ptr error{};
    std::int64_t number = -1;              // of the batch that a worker took on
    std::optional<std::int64_t> sample{};  // the one it is at; nullopt before the first
    bool reading = false;
    bool ready = false;
  };

  Slot& slot_of(std::int64_t batch) noexcept {
    return slots_[static_cast<std::size_t>(batch) % slots_.size()];
  }
  std::int64_t first_sample(std::int64_t batch) const noexcept {
    return order_.batch(batch).front();
  }
  std::string sample_text(const Slot& slot) const {
    return fmt::format("sample {} (batch {})", slot.sample.value_or(first_sample(slot.number)),
                       slot.number);
  }

  // The slot of `batch` once it is ready.
  Slot& wait_for(std::int64_t batch, std::unique_lock<std::mutex>& lock) {
    Slot& slot = slot_of(batch);
    const Deadline deadline = Deadline::after(options_.timeout);
    Deadline notice = Deadline::earlier(deadline, Deadline::after(kPatience));
    while (!ready_.wait_until(lock, notice.when(), [&] { return slot.ready; })) {
      // Where no worker took the batch on yet, its first sample.
      const std::int64_t sample =
          slot.number == batch && slot.sample ? *slot.sample : first_sample(batch);
      late_ = deadline.has_passed();
      DL_CHECK(!late_, kTimeout, "data loader: sample {} (batch {}) was not read within {} s",
               sample, batch, std::chrono::duration<double>(options_.timeout).count());
      log::warning("data loader: still waiting for sample {} (batch {})", sample, batch);
      notice = deadline;
    }
    return slot;
  }

  // Reads batch place.batch; place.sample is the sample that it is at. Asks go_on(sample) before
  // each one, and returns early where that is false.
  template <typename GoOn>
  Batch read(SamplePlace& place, const GoOn& go_on) const {
    const std::span<const std::int64_t> indices = order_.batch(place.batch);
    Batch batch;
    for (const Field& field : fields_) {
      batch.fields.push_back(empty(batch_shape(static_cast<std::int64_t>(indices.size()), field),
                                   {.dtype = field.dtype, .pin_memory = options_.pin_memory}));
    }
    std::vector<std::span<std::byte>> places(fields_.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      place.sample = indices[i];
      if (!go_on(indices[i])) return batch;
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        const std::size_t bytes = fields_[f].bytes();
        places[f] = {static_cast<std::byte*>(batch.fields[f].data_ptr()) + i * bytes, bytes};
      }
      DL_CHECK(indices[i] >= 0 && indices[i] < dataset_->size(), kIndex,
               "the dataset has {} samples", dataset_->size());
      dataset_->read(indices[i], places);
    }
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<Field> fields_;
  const BatchOrder order_;
  const DataLoaderOptions options_;
  const std::int64_t batches_;

  std::mutex mutex_;
  std::condition_variable ready_;  // a batch was read; only the thread that owns the epoch waits
  std::condition_variable room_;   // a batch was taken away, or the epoch ends
  std::vector<Slot> slots_;        // batch b lives in slot b % size
  std::int64_t taken_ = 0;         // batches that workers took on
  std::int64_t delivered_ = 0;     // batches that next() gave away
  bool stopping_ = false;
  bool late_ = false;  // next() gave up on a batch
};

// The threads, on the side of their owner.
class DataLoader::Epoch::Workers {
 public:
  Workers(std::shared_ptr<Impl> impl, int count) : impl_(std::move(impl)) {
    threads_.reserve(static_cast<std::size_t>(count));
    try {
      for (int i = 0; i < count; ++i) {
        threads_.emplace_back([impl = impl_, name = "dl-loader-" + std::to_string(i)] {
          ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
          use_all_bound_cpus();
          impl->work();
        });
      }
    } catch (const std::system_error& error) {
      const std::size_t started = threads_.size();
      end();
      throw_error(ErrorKind::kIo,
                  "data loader: {} workers were asked for, but thread {} did not start: {}", count,
                  started, error.what());
    } catch (...) {
      end();
      throw;
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { end(); }

 private:
  void end() noexcept {
    const bool idle = impl_->stop();
    for (std::thread& thread : threads_) idle ? thread.join() : thread.detach();
    threads_.clear();
  }

  std::shared_ptr<Impl> impl_;
  std::vector<std::thread> threads_;
};

DataLoader::Epoch::Epoch(std::shared_ptr<Impl> impl, int workers)
    : impl_(std::move(impl)), workers_(std::make_unique<Workers>(impl_, workers)) {}
DataLoader::Epoch::Epoch(Epoch&&) noexcept = default;
DataLoader::Epoch& DataLoader::Epoch::operator=(Epoch&&) noexcept = default;
DataLoader::Epoch::~Epoch() = default;

std::optional<Batch> DataLoader::Epoch::next() {
  DL_CHECK(impl_ != nullptr, kInvalidArgument,
           "DataLoader: next() of an epoch that was moved from");
  return impl_->next();
}

DataLoader::DataLoader(DatasetRef dataset, Sampler& sampler, DataLoaderOptions options)
    : dataset_(checked(dataset, options)), options_(options) {
  DL_CHECK(!options.shuffle, kInvalidArgument,
           "DataLoader: shuffle = true beside a sampler, which gives the order already");
  orders_ = fixed_batches(sampler, options.batch_size, options.drop_last);
}

DataLoader::DataLoader(DatasetRef dataset, BatchSampler& sampler, DataLoaderOptions options)
    : dataset_(checked(dataset, options)), options_(options), orders_(sampled_batches(sampler)) {
  DL_CHECK(!options.shuffle && options.batch_size == 1 && !options.drop_last, kInvalidArgument,
           "DataLoader: shuffle, batch_size or drop_last beside a batch sampler, which gives the "
           "batches already");
}

DataLoader::DataLoader(DatasetRef dataset, DataLoaderOptions options)
    : dataset_(checked(dataset, options)), options_(options) {
  std::unique_ptr<Sampler> sampler;
  if (options.shuffle) {
    sampler = std::make_unique<RandomSampler>(dataset_->size());
  } else {
    sampler = std::make_unique<SequentialSampler>(dataset_->size());
  }
  orders_ = fixed_batches(std::move(sampler), options.batch_size, options.drop_last);
}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

std::int64_t DataLoader::size() const noexcept {
  return orders_->size();
}

DataLoader::Epoch DataLoader::epoch() const {
  // PyTorch's loader begins each epoch with a seed for its workers. Nobody needs it here, but what
  // is drawn after it, the sampler's order first, would be another stream's.
  std::int64_t seed = 0;
  random::fill_random(std::span(&seed, 1), default_generator());
  BatchOrder order = orders_->next();
  const auto useful = static_cast<int>(std::min<std::int64_t>(options_.num_workers, order.size()));
  auto impl = std::make_shared<Epoch::Impl>(dataset_, std::move(order), options_, useful);
  return Epoch(std::move(impl), useful);
}

}  // namespace dl::data
