#include "nn/data/data_loader.h"

#include <chrono>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/warn_once.h"
#include "core/device/cuda/cuda.h"
#include "core/random/distributions.h"
#include "nn/data/loader/batch_order.h"
#include "nn/data/loader/batch_reader.h"
#include "nn/data/loader/worker_threads.h"

namespace dl::data {
namespace {

void check_fields(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    for (const std::int64_t size : field.shape) {
      DL_CHECK(size >= 0, kInvalidArgument,
               "DataLoader: field \"{}\" has a dimension of size {}, wanted at least 0", field.name,
               size);
    }
  }
}

void check_options(const DataLoaderOptions& options) {
  DL_CHECK(options.batch_size >= 1, kInvalidArgument,
           "DataLoader: batch_size is {}, wanted at least 1", options.batch_size);
  DL_CHECK(options.num_workers >= 0, kInvalidArgument,
           "DataLoader: num_workers is {}, wanted at least 0", options.num_workers);
  DL_CHECK(options.prefetch_factor >= 1, kInvalidArgument,
           "DataLoader: prefetch_factor is {}, wanted at least 1", options.prefetch_factor);
  for (const auto& [option, span] :
       {std::pair{"timeout", options.timeout}, std::pair{"stop_timeout", options.stop_timeout}}) {
    DL_CHECK(span.count() >= 0, kInvalidArgument, "DataLoader: {} is {} s, wanted at least 0",
             option, std::chrono::duration<double>(span).count());
  }
  DL_CHECK(!options.default_generator_draws || options.num_workers == 0, kInvalidArgument,
           "DataLoader: default_generator_draws beside {} workers; only one thread can draw "
           "default_generator()'s numbers in the samples' order, so num_workers must be 0",
           options.num_workers);
  DL_CHECK(!options.persistent_workers || options.num_workers > 0, kInvalidArgument,
           "DataLoader: persistent_workers beside num_workers = 0, which leaves no worker to keep");
}

std::shared_ptr<const Dataset> checked(const DatasetRef& dataset,
                                       const DataLoaderOptions& options) {
  DL_CHECK(dataset.share() != nullptr, kInvalidArgument, "DataLoader: the dataset is null");
  check_fields(dataset->fields());
  check_options(options);
  return dataset.share();
}

}  // namespace

DataLoader::DataLoader(const DatasetRef& dataset, Sampler& sampler,
                       const DataLoaderOptions& options)
    : dataset_(checked(dataset, options)), options_(options) {
  DL_CHECK(!options.shuffle, kInvalidArgument,
           "DataLoader: shuffle = true beside a sampler, which gives the order already");
  orders_ = fixed_batches(sampler, options.batch_size, options.drop_last);
}

DataLoader::DataLoader(const DatasetRef& dataset, BatchSampler& sampler,
                       const DataLoaderOptions& options)
    : dataset_(checked(dataset, options)), options_(options), orders_(sampled_batches(sampler)) {
  DL_CHECK(!options.shuffle && options.batch_size == 1 && !options.drop_last, kInvalidArgument,
           "DataLoader: shuffle, batch_size or drop_last beside a batch sampler, which gives the "
           "batches already");
}

DataLoader::DataLoader(const DatasetRef& dataset, const DataLoaderOptions& options)
    : dataset_(checked(dataset, options)), options_(options) {
  std::unique_ptr<Sampler> sampler;
  if (options.shuffle) {
    DL_CHECK(dataset_->size() > 0, kInvalidArgument,
             "DataLoader: the dataset is empty, so that shuffle = true has no sample to draw; look "
             "at its path or filter, or leave shuffle out: an empty dataset then gives no batch");
    sampler = std::make_unique<RandomSampler>(dataset_->size(),
                                              RandomSamplerOptions{.generator = options.generator});
  } else {
    sampler = std::make_unique<SequentialSampler>(dataset_->size());
  }
  orders_ = fixed_batches(std::move(sampler), options.batch_size, options.drop_last);
}

DataLoader::DataLoader(const IterableDatasetRef& dataset, const DataLoaderOptions& options)
    : stream_(dataset.share()), options_(options) {
  DL_CHECK(stream_ != nullptr, kInvalidArgument, "DataLoader: the dataset is null");
  check_options(options_);
  DL_CHECK(!options_.shuffle, kInvalidArgument,
           "DataLoader: shuffle = true of an IterableDataset, which gives the order already");
}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

std::int64_t DataLoader::size() const {
  DL_CHECK(orders_ != nullptr, kInvalidArgument,
           "DataLoader: size() of an IterableDataset, which has no number of samples");
  return orders_->size();
}

DataLoader::Epoch DataLoader::epoch() const {
  std::shared_ptr<WorkerThreads> threads = threads_ ? threads_ : std::make_shared<WorkerThreads>();
  if (options_.persistent_workers) threads_ = threads;
  DL_CHECK(!threads->is_working(), kInvalidArgument,
           "DataLoader: persistent_workers are in another epoch of this loader; end it first");
  // PyTorch's loader draws this number first in each epoch; a random sampler draws after it.
  std::int64_t seed = 0;
  random::fill_random(std::span(&seed, 1),
                      options_.generator != nullptr ? *options_.generator : default_generator());
  DataLoaderOptions options = options_;
  if (options.pin_memory && !cuda::is_available()) {
    warn_once("DataLoader: pin_memory = true, but there is no GPU here: batches are not pinned");
    options.pin_memory = false;
  }
  std::unique_ptr<BatchReader> reader =
      stream_ != nullptr ? streamed_batches(stream_, options, seed)
                         : ordered_batches(dataset_, orders_->next(), options, seed);
  return {std::move(reader), options, seed, std::move(threads), skipped_};
}

}  // namespace dl::data
