// DataLoader::Epoch: the threads that prefetch, and the order of their batches.
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/device/parallel.h"
#include "core/profiler/span.h"
#include "nn/data/data_loader.h"
#include "nn/data/loader/batch_reader.h"
#include "nn/data/loader/sample_error.h"
#include "nn/data/loader/worker_threads.h"
#include "nn/data/worker.h"

namespace dl::data {
namespace {

constexpr std::chrono::seconds kPatience{5};   // the wait before the log names the sample
constexpr std::chrono::seconds kReminder{60};  // before it names the sample again

}  // namespace

// One epoch. Its owner and its workers share it, because a worker that is left behind in a read()
// still uses it afterwards.
class DataLoader::Epoch::Impl {
 public:
  Impl(std::unique_ptr<BatchReader> reader, const DataLoaderOptions& options, std::int64_t seed,
       std::shared_ptr<std::int64_t> skipped)
      : reader_(std::move(reader)),
        options_(options),
        seed_(seed),
        batches_(reader_->batches().value_or(std::numeric_limits<std::int64_t>::max())),
        workers_(static_cast<int>(std::min<std::int64_t>(options.num_workers, batches_))),
        streams_(reader_->batches() ? 1 : std::max<std::size_t>(1, workers())),
        slots_(static_cast<std::size_t>(
            std::min(std::int64_t{workers_} * options.prefetch_factor, batches_))),
        skipped_(std::move(skipped)) {
    for (std::size_t i = 0; i < streams_.size(); ++i)
      streams_[i].next = static_cast<std::int64_t>(i);
    initialising_.reserve(workers());  // so that initialised() throws nothing
  }

  // The number of threads to start: at most one per batch.
  int useful_workers() const noexcept { return workers_; }

  std::optional<Batch> next() {
    while (!finished_ && delivered_ < batches_) {
      ReadBatch read;
      if (!stream_of(delivered_).ended) read = options_.num_workers == 0 ? read_here() : take();
      *skipped_ += read.skipped;
      if (read.over) end_stream();
      if (options_.num_workers == 0) {
        if (!read.over) ++delivered_;
      } else {
        advance();
      }
      if (read.samples > 0) return std::move(read.batch);
    }
    finished_ = true;
    return std::nullopt;
  }

  // Runs on the thread of worker number `worker`; `is_new` is true if worker_init_fn has not run on
  // it.
  void work(int worker, bool& is_new) noexcept {
    const SerialScope no_parallel_regions;
    if (is_new && !initialised(worker)) return;
    is_new = false;
    Lock lock(mutex_);
    BatchStream& stream = streams_[static_cast<std::size_t>(worker) % streams_.size()];
    for (;;) {
      const auto has_none = [&]() DL_REQUIRES(mutex_) {
        return stopping_ || stream.over || stream.next >= batches_;
      };
      room_.wait(lock.native(), [&]() DL_REQUIRES(mutex_) {
        return has_none() || stream.next < delivered_ + static_cast<std::int64_t>(slots_.size());
      });
      if (has_none()) break;
      const std::int64_t batch = stream.next;
      stream.next += static_cast<std::int64_t>(streams_.size());
      Slot& slot = slot_of(batch);
      slot.place = {.batch = batch};
      slot.reading = true;
      lock.unlock();
      SamplePlace place{.batch = batch};
      ReadBatch result;
      std::exception_ptr error;
      try {
        const profiler::Span span("DataLoader.read", profiler::Category::kData);
        result = reader_->read(worker, place, [&](std::optional<std::int64_t> sample) {
          const Lock guard(mutex_);
          slot.place.sample = sample;
          return !stopping_;
        });
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      stream.over = stream.over || result.over || error;
      slot.read = std::move(result);
      slot.error = std::move(error);
      slot.place = place;
      slot.reading = false;
      slot.ready = true;
      ready_.notify_one();
    }
    // This worker may have consumed the only notification, so it wakes the next worker, which ends
    // too.
    room_.notify_one();
  }

  // Tells the workers to end, and waits until none is in a read() or in worker_init_fn, for
  // stop_timeout at most. Returns false if one still is. The log names the sample or the worker
  // that is waited for: at once if next() timed out before, else after 5 s.
  bool stop() noexcept {
    Lock lock(mutex_);
    stopping_ = true;
    room_.notify_all();
    const auto idle = [this]() DL_REQUIRES(mutex_) {
      return initialising_.empty() &&
             std::ranges::find(slots_, true, &Slot::reading) == slots_.end();
    };
    const Deadline deadline = Deadline::after(options_.stop_timeout);
    const Deadline notice =
        Deadline::earlier(deadline, Deadline::after(late_ ? std::chrono::seconds(0) : kPatience));
    if (ready_.wait_until(lock.native(), notice.when(), idle)) return true;
    if (!deadline.has_passed()) {
      log::warning("data loader: the epoch is over, but {}; waiting {} s more", unfinished().what,
                   std::chrono::duration<double>(deadline.left()).count());
      if (ready_.wait_until(lock.native(), deadline.when(), idle)) return true;
    }
    log::error(
        "data loader: {} {} s after the end of the epoch; its thread is left behind, and needs the "
        "dataset until {} returns",
        unfinished().what, std::chrono::duration<double>(options_.stop_timeout).count(),
        unfinished().function);
    return false;
  }

 private:
  struct Slot {
    ReadBatch read{};
    std::exception_ptr error{};
    SamplePlace place{.batch = -1};  // the batch and sample that a worker reads or has read
    bool reading = false;
    bool ready = false;
  };
  // With samples from a stream, each worker has a stream of its own: every streams_.size()-th
  // batch. Batches in a known order are a single stream, from which all workers take.
  struct BatchStream {
    std::int64_t next = 0;  // the first batch that no worker has taken
    bool over = false;      // no batch is left to take
    bool ended = false;     // next() has seen the end; used only by the thread that calls next()
  };

  // What the log says of a worker that is not idle.
  struct Unfinished {
    std::string what;
    std::string_view function;  // that has to return
  };
  Unfinished unfinished() const DL_REQUIRES(mutex_) {
    const auto slot = std::ranges::find(slots_, true, &Slot::reading);
    if (slot != slots_.end()) {
      return {.what = text_of(slot->place) + " is still being read", .function = "Dataset::read"};
    }
    return {.what = "worker_init_fn of worker " + std::to_string(initialising_.front()) +
                    " is still running",
            .function = "worker_init_fn"};
  }

  // Calls worker_init_fn, unless the epoch is over. False: it threw, which ends the epoch, or was
  // not called.
  bool initialised(int worker) noexcept {
    if (!options_.worker_init_fn) return true;
    Lock lock(mutex_);
    if (stopping_) return false;
    initialising_.push_back(worker);
    lock.unlock();
    std::exception_ptr error;
    try {
      detail::Draws draws(seed_, false);
      draws.begin(worker);
      const detail::ReadScope scope(worker_info_of(worker, options_, seed_), draws);
      options_.worker_init_fn(worker);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    std::erase(initialising_, worker);
    if (error) {
      failure_ = error;
      stopping_ = true;
      room_.notify_all();
    }
    ready_.notify_one();
    return !error;
  }

  std::size_t workers() const noexcept { return static_cast<std::size_t>(workers_); }
  Slot& slot_of(std::int64_t batch) noexcept DL_REQUIRES(mutex_) {
    return slots_[static_cast<std::size_t>(batch) % slots_.size()];
  }
  BatchStream& stream_of(std::int64_t batch) noexcept {
    return streams_[static_cast<std::size_t>(batch) % streams_.size()];
  }

  void end_stream() noexcept {
    stream_of(delivered_).ended = true;
    finished_ = std::ranges::all_of(streams_, &BatchStream::ended);
  }

  // Counts batch `delivered_` as done, and wakes a worker that has room for another batch.
  void advance() {
    {
      const Lock guard(mutex_);
      ++delivered_;
    }
    if (streams_.size() == 1) {
      room_.notify_one();
    } else {
      room_.notify_all();  // only one worker can use the room, and it may be any of them
    }
  }

  // Without workers: reads the next batch on the caller's thread.
  ReadBatch read_here() {
    SamplePlace place{.batch = delivered_};
    finished_ = true;  // if it throws
    ReadBatch read;
    try {
      const profiler::Span span("DataLoader.read", profiler::Category::kData);
      read = reader_->read(0, place, [](std::optional<std::int64_t>) { return true; });
    } catch (...) {
      rethrow_for_sample(std::current_exception(), place);
    }
    finished_ = false;
    return read;
  }

  // Waits for the next batch from its worker; rethrows the worker's exception.
  ReadBatch take() {
    Lock lock(mutex_);
    Slot& slot = wait_for(delivered_, lock);
    if (failure_) {
      finished_ = true;
      std::rethrow_exception(failure_);
    }
    slot.ready = false;
    ReadBatch read = std::exchange(slot.read, {});
    const std::exception_ptr error = std::exchange(slot.error, nullptr);
    if (!error) return read;
    const SamplePlace place = slot.place;
    finished_ = true;
    stopping_ = true;
    lock.unlock();
    room_.notify_all();
    rethrow_for_sample(error, place);
  }

  // Waits until `batch` is ready, or worker_init_fn threw; returns its slot. Throws kTimeout.
  Slot& wait_for(std::int64_t batch, Lock& lock) DL_REQUIRES(mutex_) {
    Slot& slot = slot_of(batch);
    const Deadline deadline =
        options_.timeout.count() == 0 ? Deadline::never() : Deadline::after(options_.timeout);
    Deadline notice = Deadline::earlier(deadline, Deadline::after(kPatience));
    const auto is_over = [&]() DL_REQUIRES(mutex_) { return slot.ready || failure_ != nullptr; };
    while (!ready_.wait_until(lock.native(), notice.when(), is_over)) {
      SamplePlace place{.batch = batch, .sample = reader_->first_sample(batch)};
      if (slot.place.batch == batch && slot.place.sample) place = slot.place;
      late_ = deadline.has_passed();
      DL_CHECK(!late_, kTimeout, "data loader: {} was not read within {} s", text_of(place),
               std::chrono::duration<double>(options_.timeout).count());
      log::warning("data loader: still waiting for {}", text_of(place));
      notice = Deadline::earlier(deadline, Deadline::after(kReminder));
    }
    return slot;
  }

  const std::unique_ptr<BatchReader> reader_;
  const DataLoaderOptions options_;
  const std::int64_t seed_;     // of the epoch
  const std::int64_t batches_;  // the largest int64 if the number is not known in advance
  const int workers_;

  Mutex mutex_;
  std::condition_variable ready_;  // a batch was read; only the epoch's owner waits for it
  std::condition_variable room_;   // a batch was taken, or the epoch ends; workers wait for it
  std::vector<BatchStream> streams_;
  std::vector<Slot> slots_ DL_GUARDED_BY(mutex_);        // batch b lives in slot b % size
  std::vector<int> initialising_ DL_GUARDED_BY(mutex_);  // workers that are in worker_init_fn
  // Batches that next() has returned or skipped. The epoch's owner changes it under mutex_, and
  // reads it without.
  std::int64_t delivered_ = 0;
  bool stopping_ DL_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ DL_GUARDED_BY(mutex_);  // what worker_init_fn threw
  bool late_ DL_GUARDED_BY(mutex_) = false;           // next() timed out

  bool finished_ = false;  // this and skipped_ belong to the thread that owns the epoch
  const std::shared_ptr<std::int64_t> skipped_;
};

// One epoch's use of the threads: it ends with the epoch.
class DataLoader::Epoch::Workers {
 public:
  Workers(std::shared_ptr<Impl> impl, std::shared_ptr<WorkerThreads> threads, int count)
      : impl_(std::move(impl)), threads_(std::move(threads)) {
    threads_->work(count, [impl = impl_](int worker, bool& is_new) { impl->work(worker, is_new); });
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { impl_->stop() ? threads_->wait() : threads_->abandon(); }

 private:
  std::shared_ptr<Impl> impl_;
  std::shared_ptr<WorkerThreads> threads_;
};

DataLoader::Epoch::Epoch(std::unique_ptr<BatchReader> reader, const DataLoaderOptions& options,
                         std::int64_t seed, std::shared_ptr<WorkerThreads> threads,
                         std::shared_ptr<std::int64_t> skipped)
    : impl_(std::make_shared<Impl>(std::move(reader), options, seed, std::move(skipped))),
      workers_(std::make_unique<Workers>(impl_, std::move(threads), impl_->useful_workers())) {}
DataLoader::Epoch::Epoch(Epoch&&) noexcept = default;
DataLoader::Epoch& DataLoader::Epoch::operator=(Epoch&&) noexcept = default;
DataLoader::Epoch::~Epoch() = default;

std::optional<Batch> DataLoader::Epoch::next() {
  DL_CHECK(impl_ != nullptr, kInvalidArgument,
           "DataLoader: next() of an epoch that was moved from");
  const profiler::Span span("enumerate(DataLoader)#Epoch.next", profiler::Category::kData);
  return impl_->next();
}

}  // namespace dl::data
