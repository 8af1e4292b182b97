// BatchReader: reads the samples of one batch and collates them, on a thread of a DataLoader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "nn/data/batch.h"
#include "nn/data/data_loader.h"
#include "nn/data/loader/batch_order.h"
#include "nn/data/loader/sample_error.h"
#include "nn/data/worker.h"

namespace dl::data {

// What worker_info() says on this worker's thread; nullopt without workers.
std::optional<WorkerInfo> worker_info_of(int worker, const DataLoaderOptions& options,
                                         std::int64_t epoch_seed);

struct ReadBatch {
  Batch batch{};
  std::int64_t samples = 0;  // in the batch
  std::int64_t skipped = 0;  // corrupt samples that were omitted
  bool over = false;         // the worker's stream has ended, and `batch` is empty
};

// The batches of one epoch. Workers call read() concurrently.
class BatchReader {
 public:
  // Called before each sample, with its index if it has one. False: read() returns at once, and its
  // result is not used.
  using GoOn = std::function<bool(std::optional<std::int64_t> sample)>;

  virtual ~BatchReader() = default;
  // The number of batches. nullopt: each worker has batches of its own, and ReadBatch::over tells
  // when they end.
  virtual std::optional<std::int64_t> batches() const noexcept = 0;
  // The index of the first sample of batch `number`; nullopt if it is not known.
  virtual std::optional<std::int64_t> first_sample(std::int64_t number) const noexcept = 0;
  // Reads batch place.batch. Sets place.sample to the sample that is being read, so that an
  // exception can name it. Throws what the dataset and the collate function throw.
  virtual ReadBatch read(int worker, SamplePlace& place, const GoOn& go_on) = 0;
};

// Batches of a Dataset in the given order. epoch_seed: the seed of the samples' random numbers.
std::unique_ptr<BatchReader> ordered_batches(std::shared_ptr<const Dataset> dataset,
                                             BatchOrder order, const DataLoaderOptions& options,
                                             std::int64_t epoch_seed);
// Batches of an IterableDataset: one stream for each worker.
std::unique_ptr<BatchReader> streamed_batches(std::shared_ptr<const IterableDataset> dataset,
                                              const DataLoaderOptions& options,
                                              std::int64_t epoch_seed);

}  // namespace dl::data
