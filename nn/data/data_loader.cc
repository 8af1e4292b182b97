#include "nn/data/data_loader.h"

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

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/parallel.h"
#include "core/random/distributions.h"
#include "core/tensor/factories.h"

namespace dl::data {
namespace {

constexpr std::chrono::seconds kPatience{5};  // before the log says who is waited for

std::int64_t batches(std::int64_t samples, const DataLoaderOptions& options) noexcept {
  const std::int64_t full = samples / options.batch_size;
  return full + (options.drop_last || samples % options.batch_size == 0 ? 0 : 1);
}

Shape batch_shape(std::int64_t count, const Field& field) {
  Shape shape(1 + field.shape.size(), count);
  std::copy(field.shape.begin(), field.shape.end(), shape.begin() + 1);
  return shape;
}

// The exception under way, with the sample it belongs to in front of its text.
[[noreturn]] void rethrow_for_sample(std::int64_t sample, std::int64_t batch) {
  try {
    throw;
  } catch (const Error& error) {
    throw_error(error.kind(), "sample {} (batch {}): {}", sample, batch, error.what());
  } catch (const std::exception& error) {
    throw_error(ErrorKind::kInternal, "sample {} (batch {}): {}", sample, batch, error.what());
  }
}

}  // namespace

class DataLoader::Epoch::Impl {
 public:
  Impl(const Dataset& dataset, std::vector<std::int64_t> order, const DataLoaderOptions& options)
      : dataset_(dataset),
        order_(std::move(order)),
        options_(options),
        batches_(batches(static_cast<std::int64_t>(order_.size()), options)),
        slots_(static_cast<std::size_t>(options.num_workers) *
               static_cast<std::size_t>(options.prefetch_factor)) {
    const auto useful = static_cast<int>(std::min<std::int64_t>(options.num_workers, batches_));
    try {
      for (int i = 0; i < useful; ++i) threads_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error& error) {
      const std::size_t started = threads_.size();
      stop();
      throw_error(ErrorKind::kIo,
                  "data loader: {} workers were asked for, but thread {} did not start: {}",
                  options.num_workers, started, error.what());
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { stop(); }

  std::optional<Batch> next() {
    if (delivered_ == batches_) return std::nullopt;
    if (options_.num_workers == 0) {
      const std::int64_t number = std::exchange(delivered_, batches_);
      Batch batch = read(number);
      delivered_ = number + 1;
      return batch;
    }
    std::unique_lock lock(mutex_);
    Slot& slot = wait_for(delivered_, lock);
    const std::exception_ptr error = std::exchange(slot.error, nullptr);
    Batch batch = std::exchange(slot.batch, {});
    slot.ready = false;
    ++delivered_;
    lock.unlock();
    room_.notify_one();
    if (error) {
      stop();
      delivered_ = batches_;
      std::rethrow_exception(error);
    }
    return batch;
  }

 private:
  struct Slot {
    Batch batch{};
    std::exception_ptr error{};
    std::int64_t number = -1;  // of the batch that a worker took on
    std::int64_t sample = -1;  // the one it is at, for whoever waits for it
    bool reading = false;
    bool ready = false;
  };

  Slot& slot_of(std::int64_t batch) noexcept {
    return slots_[static_cast<std::size_t>(batch) % slots_.size()];
  }

  // The slot of `batch` once it is ready.
  Slot& wait_for(std::int64_t batch, std::unique_lock<std::mutex>& lock) {
    Slot& slot = slot_of(batch);
    const Deadline deadline = Deadline::after(options_.timeout);
    Deadline notice = Deadline::earlier(deadline, Deadline::after(kPatience));
    while (!ready_.wait_until(lock, notice.when(), [&] { return slot.ready; })) {
      // Where no worker took the batch on yet, its first sample.
      const std::int64_t sample =
          slot.number == batch ? slot.sample
                               : order_[static_cast<std::size_t>(batch * options_.batch_size)];
      late_ = deadline.has_passed();
      DL_CHECK(!late_, kTimeout, "data loader: sample {} (batch {}) was not read within {} s",
               sample, batch, std::chrono::duration<double>(options_.timeout).count());
      log::warning("data loader: still waiting for sample {} (batch {})", sample, batch);
      notice = deadline;
    }
    return slot;
  }

  void work(int number) {
    const std::string name = "dl-loader-" + std::to_string(number);
    ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
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
      slot.sample = order_[static_cast<std::size_t>(batch * options_.batch_size)];
      slot.reading = true;
      lock.unlock();
      Batch result;
      std::exception_ptr error;
      try {
        result = read(batch, &slot);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot.batch = std::move(result);
      slot.error = error;
      slot.reading = false;
      slot.ready = true;
      ready_.notify_one();
    }
    // A worker that found nothing left to take wakes the next one to find the same.
    room_.notify_one();
  }

  Batch read(std::int64_t number, Slot* slot = nullptr) {
    const std::vector<Field>& fields = dataset_.fields();
    const auto first = static_cast<std::size_t>(number * options_.batch_size);
    const std::span<const std::int64_t> indices = std::span(order_).subspan(
        first, std::min(static_cast<std::size_t>(options_.batch_size), order_.size() - first));
    Batch batch;
    for (const Field& field : fields) {
      batch.fields.push_back(empty(batch_shape(static_cast<std::int64_t>(indices.size()), field),
                                   {.dtype = field.dtype, .pin_memory = options_.pin_memory}));
    }
    std::vector<std::span<std::byte>> places(fields.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (slot != nullptr) {
        const std::lock_guard lock(mutex_);
        if (stopping_) return batch;  // nobody will look at it
        slot->sample = indices[i];
      }
      for (std::size_t f = 0; f < fields.size(); ++f) {
        const std::size_t bytes = fields[f].bytes();
        places[f] = {static_cast<std::byte*>(batch.fields[f].data_ptr()) + i * bytes, bytes};
      }
      try {
        DL_CHECK(indices[i] >= 0 && indices[i] < dataset_.size(), kIndex,
                 "the dataset has {} samples", dataset_.size());
        dataset_.read(indices[i], places);
      } catch (...) {
        rethrow_for_sample(indices[i], number);
      }
    }
    return batch;
  }

  // Workers cannot be given up, since they read from what the caller will free; but whoever waits
  // here for one is told so, at once where next() waited already.
  void stop() noexcept {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      room_.notify_all();
      const auto reading = [this] { return std::ranges::find(slots_, true, &Slot::reading); };
      const auto patience = late_ ? std::chrono::seconds(0) : kPatience;
      if (!ready_.wait_for(lock, patience, [&] { return reading() == slots_.end(); })) {
        log::warning(
            "data loader: the epoch is over, but sample {} (batch {}) is still being read; "
            "waiting for Dataset::read to return",
            reading()->sample, reading()->number);
      }
    }
    threads_.clear();  // joins
  }

  const Dataset& dataset_;
  const std::vector<std::int64_t> order_;
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
  std::vector<std::jthread> threads_;
};

DataLoader::Epoch::Epoch(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
DataLoader::Epoch::Epoch(Epoch&&) noexcept = default;
DataLoader::Epoch& DataLoader::Epoch::operator=(Epoch&&) noexcept = default;
DataLoader::Epoch::~Epoch() = default;

std::optional<Batch> DataLoader::Epoch::next() {
  return impl_->next();
}

DataLoader::DataLoader(const Dataset& dataset, Sampler& sampler, DataLoaderOptions options)
    : dataset_(dataset), sampler_(sampler), options_(options) {
  DL_CHECK(options.batch_size >= 1, kInvalidArgument,
           "DataLoader: batch_size is {}, wanted at least 1", options.batch_size);
  DL_CHECK(options.num_workers >= 0, kInvalidArgument,
           "DataLoader: num_workers is {}, wanted at least 0", options.num_workers);
  DL_CHECK(options.prefetch_factor >= 1, kInvalidArgument,
           "DataLoader: prefetch_factor is {}, wanted at least 1", options.prefetch_factor);
}

std::int64_t DataLoader::size() const noexcept {
  return batches(sampler_.size(), options_);
}

DataLoader::Epoch DataLoader::epoch() const {
  // PyTorch's loader begins each epoch with a seed for its workers. Nobody needs it here, but what
  // is drawn after it, the sampler's order first, would be another stream's.
  std::int64_t seed = 0;
  random::fill_random(std::span(&seed, 1), default_generator());
  return Epoch(std::make_unique<Epoch::Impl>(dataset_, sampler_.indices(), options_));
}

}  // namespace dl::data
