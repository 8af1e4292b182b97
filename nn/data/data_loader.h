// DataLoader: reads a dataset in a sampler's order, and gives batches of tensors.
//
//   DataLoader loader(dataset, sampler, {.batch_size = 64, .num_workers = 2, .drop_last = true});
//   for (const auto& [x, y] : loader) step(x, y);  // or const Batch& batch: batch[0], batch[1]
//
// The loader borrows the sampler, which must outlive it, and takes the dataset as a DatasetRef.
// Batches come in the sampler's order and hold the same bytes for any number of workers: a worker
// reads whole batches into their own memory, ahead of the loop by at most prefetch_factor batches a
// worker. Workers open no parallel region. A batch's tensors belong to the caller.
//
// Errors: an exception that a dataset or a collate function throws is rethrown by next() with its
// own type, when it is that batch's turn, and ends the epoch. The text of a dl::Error, and of a
// standard exception that has only a text (std::out_of_range), contains the sample's index (for a
// stream or a collate function, the batch's). Other exceptions are rethrown unchanged, and the log
// names the sample. epoch() rethrows exceptions of a sampler unchanged.
//
// The end of an epoch stops its workers after the samples that they are reading. If a read() does
// not return within stop_timeout, the log names the sample and the thread is left behind. A dataset
// that the loader shares then lives until that read() returns; a borrowed one must live as long.
//
// Thread-safety: one thread uses a loader and its epochs. Epochs of one loader may overlap.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/random/generator.h"
#include "nn/data/batch.h"
#include "nn/data/dataset_ref.h"
#include "nn/data/sampler.h"

namespace dl::data {

class BatchOrders;
class BatchReader;
class WorkerThreads;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  // For a loader without a sampler. True: a new random order in each epoch, the same as PyTorch's;
  // false: the dataset's order.
  bool shuffle = false;
  int num_workers = 0;      // 0: next() reads, on the caller's thread
  int prefetch_factor = 2;  // batches that each worker reads ahead
  bool drop_last = false;   // drop the last batch if it is not full
  // Put batches into pinned memory, for asynchronous copies to a CUDA device. Without such a
  // device, batches are in ordinary memory, and the log says so once.
  bool pin_memory = false;
  // Makes a batch of the samples of get(); null: default_collate().
  CollateFunction collate_fn{};
  // If get() or read() throws Error{kParse}, as readers do for a corrupt file, omit the sample from
  // its batch, name it in the log and count it in skipped(). An empty batch is omitted, too.
  bool skip_corrupt = false;
  // Random transforms draw from default_generator(), so that dl::manual_seed(s) gives the numbers
  // that torch.manual_seed(s) gives torchvision's. Only with num_workers = 0.
  bool default_generator_draws = false;
  // The source of each epoch's seed and, without a sampler, of the random order. Borrowed; null:
  // default_generator().
  Generator* generator = nullptr;
  // How long next() waits for one batch before it throws kTimeout; 0: without a limit.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  // How long the end of an epoch waits for samples that are being read, and for worker_init_fn.
  std::chrono::nanoseconds stop_timeout = std::chrono::seconds(30);
  // Called with the worker's number on each worker's thread before it reads, unless the epoch is
  // over by then; worker_info() answers there. next() throws what it throws.
  std::function<void(int worker)> worker_init_fn{};
  // Keeps the workers' threads, with their thread-local variables, for all epochs of the loader:
  // worker_init_fn then runs once on each. Only with workers, and for one epoch at a time.
  bool persistent_workers = false;
};

class DataLoader {
 public:
  // One pass over the sampler's order. Made by DataLoader; movable.
  class Epoch {
   public:
    Epoch(Epoch&&) noexcept;
    Epoch& operator=(Epoch&&) noexcept;
    ~Epoch();
    // The next batch; nullopt at the end. Throws what the dataset or collate_fn threw; kTimeout,
    // naming the sample that was not read in time; and kInvalidArgument for an epoch that was moved
    // from. After 5 s of waiting, the log names the sample.
    std::optional<Batch> next();

   private:
    friend class DataLoader;
    class Impl;
    class Workers;
    Epoch(std::unique_ptr<BatchReader> reader, const DataLoaderOptions& options, std::int64_t seed,
          std::shared_ptr<WorkerThreads> threads, std::shared_ptr<std::int64_t> skipped);
    // Shared with the workers, because a worker may be left behind.
    std::shared_ptr<Impl> impl_;
    std::unique_ptr<Workers> workers_;
  };

  class Iterator {
   public:
    explicit Iterator(Epoch epoch) : epoch_(std::move(epoch)), batch_(epoch_.next()) {}
    // Throws kInvalidArgument at the end.
    const Batch& operator*() const {
      DL_CHECK(batch_.has_value(), kInvalidArgument, "DataLoader: the iterator is at the end");
      return *batch_;
    }
    Iterator& operator++() {
      batch_.reset();  // frees its memory for the next batch
      batch_ = epoch_.next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

   private:
    Epoch epoch_;
    std::optional<Batch> batch_;
  };

  // The order is the sampler's, the batch sampler's, or that of options.shuffle. Throws
  // kInvalidArgument for a null dataset or a field with a negative size; for a batch_size or
  // prefetch_factor below 1, or num_workers, timeout or stop_timeout below 0; for shuffle with a
  // sampler or of an empty dataset; for shuffle, batch_size or drop_last with a batch sampler; and
  // for default_generator_draws with workers, or persistent_workers without.
  DataLoader(const DatasetRef& dataset, Sampler& sampler, const DataLoaderOptions& options = {});
  DataLoader(const DatasetRef& dataset, BatchSampler& sampler,
             const DataLoaderOptions& options = {});
  explicit DataLoader(const DatasetRef& dataset, const DataLoaderOptions& options = {});
  // Each worker makes batches of its own stream. The loop takes one batch from each worker in turn,
  // and skips workers whose stream has ended. Throws kInvalidArgument as above, and for shuffle.
  explicit DataLoader(const IterableDatasetRef& dataset, const DataLoaderOptions& options = {});
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  // Batches in an epoch, by the sampler's size(). Throws kInvalidArgument for an IterableDataset.
  std::int64_t size() const;
  // The number of samples that skip_corrupt has omitted so far, in all epochs.
  std::int64_t skipped() const noexcept { return *skipped_; }
  // Starts a pass: draws one number from the generator, then takes the sampler's order and starts
  // the workers. torch.utils.data.DataLoader draws in the same order, so the same seed gives the
  // same shuffles. Throws what the sampler throws, kInvalidArgument if the sampler's size() is not
  // the number of its indices(), or if persistent workers are in another epoch, and kIo if a
  // worker's thread does not start.
  Epoch epoch() const;
  Iterator begin() const { return Iterator(epoch()); }
  static std::default_sentinel_t end() { return std::default_sentinel; }

 private:
  // Shared with workers, because a worker may be left behind. One of the two is null.
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const IterableDataset> stream_;
  DataLoaderOptions options_;
  std::unique_ptr<BatchOrders> orders_;  // null for an IterableDataset
  std::shared_ptr<std::int64_t> skipped_ = std::make_shared<std::int64_t>(0);
  mutable std::shared_ptr<WorkerThreads> threads_;  // of persistent workers
};

}  // namespace dl::data
